"""Real workloads on a real local cluster: MapReduce, GridMix, Spark and distributed shell, on plain YARN or through the
proxy and the sidecars; YARN's own records show what ran, and how.
"""
