"""How soon an application master has a queueable container, while others keep the ResourceManager busy."""
