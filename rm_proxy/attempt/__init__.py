"""One application attempt: its asks, its containers, and the messages that its application master gets."""
