"""The headroom that an application master is shown."""
