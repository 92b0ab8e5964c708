"""A large YARN cluster on one machine: a real ResourceManager, emulated NodeManagers and application masters."""
