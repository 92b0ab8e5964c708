"""A real Hadoop cluster on this machine's loopback addresses, for the demo, the tests and the benchmarks."""
