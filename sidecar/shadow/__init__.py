"""What alternatives in shadow would decide at the node."""
