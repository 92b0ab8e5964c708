"""The proxy's commands."""
