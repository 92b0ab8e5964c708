"""One application master's connection at the node, as a machine."""
