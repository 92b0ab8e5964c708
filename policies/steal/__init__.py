"""Nodes with room take over containers that wait elsewhere."""
