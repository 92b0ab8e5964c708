"""The sidecar as a process: dispatch, resizing, reports, the guardian."""
