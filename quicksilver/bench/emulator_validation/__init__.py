"""Whether the emulated cluster tells the truth: one workload on it and on real NodeManagers, side by side."""
