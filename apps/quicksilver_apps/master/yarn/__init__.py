"""The master's conversation with the ResourceManager and NodeManagers."""
