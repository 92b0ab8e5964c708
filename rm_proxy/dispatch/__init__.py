"""The central queue: which application gets the places that are free, of those whose containers wait at the proxy."""
