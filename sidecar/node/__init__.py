"""The node machine: decides which containers of a node run, wait or are killed."""
