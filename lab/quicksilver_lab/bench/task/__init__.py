"""What a short task costs the proxy, part by part, before stand-ins of the ResourceManager, nodes and masters."""
