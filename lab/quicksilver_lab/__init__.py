"""Local Hadoop clusters, workloads, faults and measurements: what no host of a cluster runs."""
