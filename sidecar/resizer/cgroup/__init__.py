"""Resizing by cgroups, v1 and v2."""
