"""Parts of every daemon process: logs, limits, sockets that outlive it."""
