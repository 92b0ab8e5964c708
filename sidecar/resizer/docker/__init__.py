"""Resizing of Docker containers."""
