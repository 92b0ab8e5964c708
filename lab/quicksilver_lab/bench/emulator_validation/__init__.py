"""Validation of the emulated cluster: one workload on it and on real NodeManagers, side by side."""
