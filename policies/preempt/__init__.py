"""How a node makes room for a container."""
