"""Long polls: how long the answer to an allocate may wait for news, when it is asked for again, and when it ends."""
