"""The systems of the papers; entry points of this package name them."""
