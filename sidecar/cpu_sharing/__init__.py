"""Which containers have the cores of a node: least attained service."""
