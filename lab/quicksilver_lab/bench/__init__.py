"""Benchmarks against real YARN; each prints one JSON object as its last line."""
