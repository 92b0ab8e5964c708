"""The node's memory: the guard, pressure, and the fence around all containers."""
