"""The simulator measured: how fast it is, and whether the papers' figures come out."""
