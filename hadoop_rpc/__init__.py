"""Hadoop IPC as bytes and events: framing, SASL and connections, without any IO."""
