"""Least attained service against stock YARN: real containers on one node, the workload of the Kairos thesis §4.5.2."""
