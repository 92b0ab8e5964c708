"""The first process in each instance's container, and how master and launchers find each other."""
