"""Which nodes are kept for short jobs."""
