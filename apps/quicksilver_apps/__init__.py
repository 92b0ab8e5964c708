"""Applications that are described in a file, and run on YARN as a whole (Zoe, §5): core services, and elastic ones."""
