"""Logs of an application's instances."""
