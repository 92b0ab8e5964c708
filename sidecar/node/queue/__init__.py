"""Starts that wait at a node: their order, their expected waits, and which ones are shed."""
