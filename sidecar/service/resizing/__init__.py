"""Resizing of containers: the executor of orders, its start, limits that an earlier sidecar left."""
