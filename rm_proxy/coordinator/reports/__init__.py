"""What sidecars report, and what follows from it."""
