"""What the master decides: events in, commands out; no IO."""
