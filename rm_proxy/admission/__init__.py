"""Whole applications (slot `admit`): which are in service, what is core of each, and whose elastic containers go."""
