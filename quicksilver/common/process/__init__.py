"""What every daemon of ours has as a process: logs, limits, sockets that outlive it."""
