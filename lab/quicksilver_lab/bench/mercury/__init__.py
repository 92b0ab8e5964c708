"""What is compared on the emulated cluster, and the figures of Mercury's experiments (ATC '15, §7)."""
