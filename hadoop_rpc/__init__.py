"""Hadoop IPC as bytes and events: frames, SASL, connections; does no IO."""
