"""Whether a container that may be queueable has a token, is opportunistic, or waits."""
