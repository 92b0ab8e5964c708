"""What running daemons answer."""
