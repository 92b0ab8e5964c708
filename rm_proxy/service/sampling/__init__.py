"""Samples of the cluster, its queues and decisions for pages and metrics."""
