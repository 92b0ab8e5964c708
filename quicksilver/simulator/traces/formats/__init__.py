"""Formats of traces."""
