"""Running queueable containers that become guaranteed."""
