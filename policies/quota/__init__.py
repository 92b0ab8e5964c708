"""How many queueable containers a queue, user or application may have."""
