"""The cluster as the proxy knows it: nodes, queues, placement, targets, moves."""
