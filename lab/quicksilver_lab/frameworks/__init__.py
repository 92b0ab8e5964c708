"""Unmodified frameworks on YARN beside MapReduce, on a real local cluster: Spark, Flink, Tez and Hive."""
