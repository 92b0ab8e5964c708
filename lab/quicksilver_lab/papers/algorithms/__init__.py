"""Algorithms of the papers that only these replicas run."""
