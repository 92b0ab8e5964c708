"""News in an answer of the ResourceManager: only an answer without any may be absorbed.

Each next allocate confirms what the answer before brought: completions (RMAppAttemptImpl), updated nodes, containers to
be preempted (FiCaSchedulerApp). An absorbed answer that had any of it would lose it.
"""

from __future__ import annotations

from hadoop_rpc.protos import yarn_pb2 as y


def carries(answer: y.AllocateResponseProto) -> bool:
    """Return whether an answer has containers, completions, updates or states of nodes."""
    return bool(
        answer.allocated_containers
        or answer.completed_container_statuses
        or answer.updated_nodes
        or answer.updated_containers
        or answer.update_errors
        or answer.containers_from_previous_attempts
    )


class Told:
    """What the application master was last sent of what the ResourceManager repeats in many answers."""

    __slots__ = ("_priority", "_token")

    def __init__(self) -> None:
        self._token: bytes | None = None
        self._priority: int | None = None

    def is_news(self, answer: y.AllocateResponseProto) -> bool:
        """Return whether an answer that carries nothing has news all the same; what it has counts as sent then.

        Headroom and the number of nodes are none: they are as new as the last call. A contract of preemption without
        containers is in every answer of the Capacity Scheduler.
        """
        token = answer.am_rm_token.SerializeToString() if answer.HasField("am_rm_token") else self._token
        priority = answer.application_priority.priority if answer.HasField("application_priority") else self._priority
        changed = (token, priority) != (self._token, self._priority)
        self._token, self._priority = token, priority
        preempt = answer.preempt
        return bool(
            changed
            or answer.nm_tokens
            or answer.rejected_scheduling_requests
            or answer.HasField("a_m_command")
            or preempt.strictContract.container
            or preempt.contract.container
        )
