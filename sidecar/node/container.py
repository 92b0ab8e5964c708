"""One container as the node machine knows it, and the rules of the machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from policies.model import ContainerView, Kind, Resources
from quicksilver.common.messages import ContainerState, Expected, Grant
from quicksilver.common.own_numbers import may_be_ahead
from sidecar.node.events import Start
from sidecar.node.phases import KILLED, STARTS, Phase

CONTAINER_ID = re.compile(r"container_(?:e(\d+)_)?(\d+)_(\d+)_(\d+)_(\d+)")
"""The text form of a container id: epoch, cluster timestamp, application, attempt and number."""
_FORGED = "invalid container token"


GUARANTEED, QUEUEABLE, FOREIGN = "G", "Q", "O"
"""Granted by the ResourceManager's scheduler; announced by the proxy; opportunistic, granted by Hadoop itself."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings of the node machine; the defaults are those of `config.SidecarSettings`."""

    capacity: Resources
    count_vcores: bool = True
    reserve_mb: int = 512
    settle_s: float = 2.0
    announce_wait_s: float = 1.0
    announce_keep_s: float = 900.0
    announced_max: int = 10_000
    expiry_margin_s: float = 30.0
    queue_max_length: int = 1000
    queue_max_bytes: int = 256 * 2**20
    kill_wait_s: float = 10.0
    shares_cpu: bool = False
    """Whether containers give way by being resized: then a lack of vcores kills nothing."""
    extra_vcores: float = 0.0
    """Queueable containers start until the capacity plus this is used (Q of Kairos §4.3.3)."""
    nm_vcores: float | None = None
    """Vcores that the NodeManager believes to have; beyond them it kills by itself, newest first. None: unknown."""
    nm_memory_mb: int | None = None
    """Memory that the NodeManager believes to have; None: unknown, then no more than the capacity."""
    overcommit: bool = False
    """Whether guaranteed containers may take allocated memory that is not used, within `nm_memory_mb`."""
    targets_keep_s: float = 10.0
    am_vcores: float | None = None
    """Vcores of an application master among containers that share the CPU; None: as it asked."""
    strict: bool = True
    """Whether a phase change that `phases.MOVES` does not have raises; else it is logged as a warning."""


@dataclass(slots=True)
class Container:
    """One container; `since_s` is when the phase began, `started_s` when the NodeManager accepted it."""

    id: str = field(init=False)
    start: Start
    kind: str
    phase: Phase
    arrived_s: float
    since_s: float
    grant: Grant | None = None
    sent_s: float | None = None
    started_s: float | None = None
    until_s: float = 0.0
    """When the phase must end: hold limit, wait for the announcement, wait for the room."""
    kill_reason: str = ""
    """Why it is to be killed; the kill waits for the answer to its start."""
    kill_cause: str = ""
    """Why in one word: room, memory, queued, admit, drain or proxy."""
    kill_s: float | None = None
    """When it will be killed, if its application master is to hear of it before; None: nobody intends it."""
    awaited_by: str = ""
    """The guaranteed start that waits for the end of this container, which is near."""
    process_gone: bool = False
    taken_over: bool = False
    """Known from an earlier sidecar process: its application master may not have got the answer."""
    localized: bool = False
    """Whether its localization is over; known only of containers that are being killed."""
    unlaunched_s: float | None = None
    """Since when a restarted NodeManager lists it as not launched; None while it does not."""
    payload: bytes = field(init=False, repr=False)
    """The serialized request, until it is sent."""
    expected: Expected | None = None
    """Latest run time that the proxy expects of its task; None while the estimate of its grant is current."""

    def __post_init__(self) -> None:
        self.id, self.payload = self.start.container_id, self.start.payload

    @property
    def expected_s(self) -> float:
        """How long it is expected to run; 0 for what Hadoop granted, until the proxy sends an estimate.

        A task that was lost before had run for a while: it is not expected to take less than its grant said.
        """
        granted_s = self.grant.expected_s if self.grant else 0.0
        if self.expected is None:
            return granted_s
        return max(self.expected.expected_s, granted_s) if self.grant and self.grant.sheds else self.expected.expected_s

    @property
    def spread_s(self) -> float:
        """Standard deviation of the run times of its stage; 0 when not known."""
        if self.expected is not None:
            return self.expected.spread_s
        return self.grant.spread_s if self.grant else 0.0

    @property
    def priority(self) -> int:
        """The request priority."""
        return self.grant.priority if self.grant else self.start.priority

    @property
    def state(self) -> ContainerState:
        """The phase as the proxy knows it."""
        if self.phase is Phase.RUNNING or self.phase in KILLED:
            return ContainerState.RUNNING
        return ContainerState.STARTING if self.phase in STARTS else ContainerState.WAITING

    @property
    def unknown(self) -> bool:
        """Whether the ResourceManager may not know it yet: it would have the NodeManager kill it."""
        return self.grant is not None and not self.grant.known

    @property
    def yields(self) -> bool:
        """Whether it gives way to others: queueable, or opportunistic as Hadoop's own grant."""
        return self.kind != GUARANTEED

    def view(self, attained_s: float | None = None, memory_used_mb: int | None = None) -> ContainerView:
        """Return the container as the policies see it, with its measured use."""
        grant = self.grant
        return ContainerView(
            id=self.id,
            app=self.start.app_id,
            kind=Kind.QUEUEABLE if self.kind == QUEUEABLE else Kind.GUARANTEED,
            resources=self.start.resources,
            priority=grant.priority if grant else self.start.priority,
            app_type=grant.app_type if grant else "YARN",
            queue_priority=grant.queue_priority if grant else 0,
            app_priority=grant.app_priority if grant else 0,
            job_submitted_s=grant.job_submitted_s if grant else 0.0,
            arrived_s=self.arrived_s,
            started_s=self.started_s if self.started_s is not None else self.sent_s,
            expected_s=self.expected_s,
            attained_s=attained_s,
            memory_used_mb=memory_used_mb,
            precedence=grant.precedence if grant else 0,
            queue=grant.queue if grant else "",
            user=grant.user if grant else "",
            spread_s=self.spread_s,
            job_remaining_s=grant.job_remaining_s if grant else 0.0,
            sheds=grant.sheds if grant else 0,
        )


def app_of_attempt(attempt_id: str) -> str:
    """Return the application of `appattempt_TS_APP_ATTEMPT`; "" for anything else."""
    parts = attempt_id.split("_")
    return f"application_{parts[1]}_{parts[2]}" if len(parts) == 4 and parts[0] == "appattempt" else ""


def is_earlier(attempt_id: str, other_id: str) -> bool:
    """Return whether an attempt is an earlier one of the same application than another."""
    app, _, number = attempt_id.rpartition("_")
    peer_app, _, peer_number = other_id.rpartition("_")
    return app == peer_app and number.isdigit() and peer_number.isdigit() and int(number) < int(peer_number)


def app_of(container: str) -> str:
    """Return the application of a container id's text form; "" for anything else."""
    match = CONTAINER_ID.fullmatch(container)
    return f"application_{match[2]}_{match[3]}" if match else ""


def may_be_unknown(container: str) -> bool:
    """Return whether the proxy may have granted a container before the ResourceManager knows it, by its id."""
    match = CONTAINER_ID.fullmatch(container)
    return match is not None and may_be_ahead(int(match[5]))


def is_forged(text: str) -> bool:
    """Return whether the NodeManager refused a start because its token is not as the ResourceManager issued it."""
    return _FORGED in text.lower()
