"""Fuzzing of the wire and of both relays: mutated bytes of real conversations, and what has to hold whatever comes."""
