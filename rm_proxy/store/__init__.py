"""The proxy's database."""
