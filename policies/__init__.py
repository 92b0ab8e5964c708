"""Every choice that quicksilver makes, as pure functions with checked settings."""
