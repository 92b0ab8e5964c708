"""Exit statuses that YARN gives to containers (ContainerExitStatus): the instance's own fault, or not."""

from __future__ import annotations

from typing import Final

SYSTEM: Final = {
    -100: "its container was lost or released",
    -101: "the disks of its node failed",
    -102: "its container was preempted",
    -105: "it was killed by the application master",
    -106: "it was killed by the ResourceManager",
    -107: "it was killed after the application ended",
    -108: "it was killed by the container scheduler of its node",
}
"""Not the fault of what ran in the container."""
OWN: Final = {
    -103: "it used more virtual memory than its container has",
    -104: "it used more memory than its container has",
    -1000: "its node reported no exit status",
    137: "it was killed (SIGKILL)",
    143: "it was terminated (SIGTERM)",
}


def meaning(exit_status: int) -> str:
    """Return what a status says, in words."""
    return SYSTEM.get(exit_status) or OWN.get(exit_status) or f"it ended with exit status {exit_status}"
