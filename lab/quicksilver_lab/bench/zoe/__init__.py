"""`quicksilver bench zoe`: Zoe's experiment on ten servers (§6), on the emulated cluster before a ResourceManager."""
