"""What resizing a container costs, and what a sidecar with many containers in hand costs a node."""
