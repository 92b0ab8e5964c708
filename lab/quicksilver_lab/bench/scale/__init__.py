"""What the proxy costs as the cluster grows: latency, CPU, rounds and memory by nodes and application masters."""
