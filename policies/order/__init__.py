"""The order in which containers that wait at a node start."""
