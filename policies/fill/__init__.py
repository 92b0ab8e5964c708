"""Which waiting containers start in room that the first of the queue cannot use."""
