"""REST of the proxy."""
