"""Emulated application masters."""
