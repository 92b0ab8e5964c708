"""Resizers shrink running containers and restore their full limits; one module per mechanism."""
