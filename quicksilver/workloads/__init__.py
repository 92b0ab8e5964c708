"""Real workloads on a real local cluster: MapReduce, GridMix, Spark and distributed shell, on plain YARN or through the
proxy and the sidecars; what ran how is told by the records of YARN itself.
"""
