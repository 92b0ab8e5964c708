"""How many containers may wait at a node, and for how long."""
