"""What each policy does: on the machines under a virtual clock."""
