"""One application attempt: its asks, its containers, and what its master sees of them."""
