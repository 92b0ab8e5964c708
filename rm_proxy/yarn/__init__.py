"""The ResourceManager's REST."""
