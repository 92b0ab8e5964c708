"""One application master's connection to the ResourceManager, as a machine."""
