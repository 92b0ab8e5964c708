"""The `quicksilver` program: one entry point for proxy, sidecar, policies and the local cluster."""
