"""Expected durations of tasks, and the speeds of nodes."""
