"""Unmodified frameworks on YARN beside MapReduce, on a real local cluster: Spark that grows and shrinks, Flink."""
