"""What the coordinator knows of each node."""
