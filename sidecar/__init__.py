"""The sidecar beside each NodeManager: queues queueable containers at the node and starts them when there is room."""
