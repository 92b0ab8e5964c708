"""Short and long jobs, and the nodes that are kept for the short ones."""
