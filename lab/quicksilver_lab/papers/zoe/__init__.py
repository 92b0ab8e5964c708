"""Zoe's applications: what they are made of, how fast they run, and their admission under a virtual clock."""
