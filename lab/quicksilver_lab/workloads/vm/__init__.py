"""A virtual machine of its own for what needs another kernel."""
