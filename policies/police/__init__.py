"""How much of a node queueable containers may use at which time."""
