"""Mercury's experiments (ATC '15, §7) on an emulated cluster before a real ResourceManager."""
