"""What each policy does: on the machines under a virtual clock, and on a real local cluster."""
