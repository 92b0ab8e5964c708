"""The NodeManager's own REST, read by the sidecar."""
