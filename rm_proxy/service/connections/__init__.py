"""Connections of application masters, and those to the ResourceManager."""
