"""The node of a queueable container."""
