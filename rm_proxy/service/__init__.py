"""The proxy as a process: sockets, timers, journal, reload."""
