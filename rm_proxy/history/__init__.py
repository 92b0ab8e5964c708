"""The last day of the cluster, in memory: machines that are fed with samples."""
