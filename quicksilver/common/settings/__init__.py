"""quicksilver.yaml: read, checked, and read again while a daemon runs."""
