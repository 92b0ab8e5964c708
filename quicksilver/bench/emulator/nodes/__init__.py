"""Emulated NodeManagers."""
