"""Processes of containers: their pid files, and when they end."""
