"""Unmodified Flink on YARN: its jars, a streaming job that counts exactly once, its client and what the job wrote."""
