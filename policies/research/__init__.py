"""Algorithms of the papers that only the simulator runs so far."""
