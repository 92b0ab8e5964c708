"""Registration of an attempt, and its return after a restart of ResourceManager or proxy."""
