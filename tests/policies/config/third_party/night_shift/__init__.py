"""Policies of the night shift."""
