"""Guaranteed or queueable: the kind of each container."""
