"""How a start is admitted: held, let through, or launched."""
