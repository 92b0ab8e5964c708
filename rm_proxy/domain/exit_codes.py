"""Exit statuses that frameworks read as "not the task's fault", by application type (ContainerExitStatus of YARN)."""

from __future__ import annotations

from typing import Final

INVALID: Final = -1000
ABORTED: Final = -100
PREEMPTED: Final = -102
KILLED_BY_APPMASTER: Final = -105
KILLED_BY_RESOURCEMANAGER: Final = -106
KILLED_AFTER_APP_COMPLETION: Final = -107
KILLED_BY_CONTAINER_SCHEDULER: Final = -108
LAUNCH_FAILED: Final = 1
"""A start that the NodeManager refused for a reason of the task's own."""

_BY_SYSTEM: Final = frozenset(
    (ABORTED, KILLED_BY_RESOURCEMANAGER, KILLED_AFTER_APP_COMPLETION, KILLED_BY_CONTAINER_SCHEDULER)
)
_BY_TYPE: Final = {"YARN": ABORTED}
"""Distributed shell (type YARN) asks again after -100 only, Tez after -102 only; MapReduce and Spark after both."""


def preempted_status(app_type: str) -> int:
    """Return the exit status that makes an application of this type ask again without blaming task or node."""
    return _BY_TYPE.get(app_type, PREEMPTED)


def by_the_system(exit_status: int) -> bool:
    """Return whether YARN ended the container for reasons of its own: released, lost, or its NodeManager made room.

    A NodeManager that is stopped, or asked to resync, ends its containers with -107 or -106 while the application
    lives on (ContainerManagerImpl.cleanUpApplicationsOnNMShutDown, cleanupContainersOnNMResync).
    """
    return exit_status in _BY_SYSTEM


def translate(app_type: str, exit_status: int, killed: bool, released_by_am: bool) -> int:
    """Return the exit status for the application master of a queueable container that ended with `exit_status`.

    killed: the sidecar stopped it; released_by_am: the application itself gave it back, its status then stays YARN's.
    """
    if released_by_am:
        return exit_status
    return preempted_status(app_type) if killed or by_the_system(exit_status) else exit_status
