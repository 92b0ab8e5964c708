"""LinuxContainerExecutor on a local cluster."""
