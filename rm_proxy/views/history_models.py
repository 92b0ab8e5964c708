"""Answers of the REST API on the store's data, in sums. Durations are seconds, as the names say."""

from __future__ import annotations

from pydantic import BaseModel, computed_field

from rm_proxy.views.cluster_models import ApplicationInfo, ApplicationRecord


class DelayFigures(BaseModel):
    """A distribution of times; percentiles are nearest ranks, null without values."""

    count: int
    waiting: int = 0
    """Of `count`: containers that still wait. Their waits so far count."""
    p50_s: float | None = None
    p95_s: float | None = None
    max_s: float | None = None


class NodeCountsInfo(BaseModel):
    """Containers allocated on one node."""

    node_id: str
    guaranteed: int
    queueable: int


class Summary(BaseModel):
    """Counts and delays over a time, of all applications or of one."""

    since_s: float
    app_id: str | None
    guaranteed: int
    queueable: int
    nodes: list[NodeCountsInfo]
    allocation_g: DelayFigures
    """From ask to delivery, or until now."""
    allocation_q: DelayFigures
    queueing: DelayFigures
    """Waiting at the node, of queueable containers that started or still wait there."""
    events: dict[str, int]
    """Container events by kind."""


class LedgerRow(BaseModel):
    """Sums over the containers of one application, queue, user or day. A task-second is a second of work of one task:
    CPU time where it was measured, else wall time."""

    key: str
    """An application's id, a queue, a user ("" for applications that are not known any more), or a day: 2026-11-21."""
    name: str = ""
    """By application: its name, queue and user."""
    queue: str = ""
    user: str = ""
    containers_g: int = 0
    """Containers allocated, by what the ResourceManager granted them as."""
    containers_q: int = 0
    started_q: int = 0
    """Queueable containers that started."""
    queueing_s: float = 0.0
    """Seconds that they waited at their nodes."""
    work_s: float = 0.0
    """Task-seconds of containers that ended by themselves, or by their application's will."""
    kills: int = 0
    """Containers that ran and were killed: by a sidecar, or preempted by the ResourceManager or NodeManager."""
    lost_s: float = 0.0
    """Their task-seconds."""
    shrinks: int = 0
    """How often containers that are over had been shrunk."""
    saved_s: float = 0.0
    """Task-seconds that kills in place of the shrinks would have lost, of containers that were not killed after all."""
    sheds: int = 0
    """Containers shed before they started, to be asked for again, moved ones left out."""
    moves: int = 0
    """Containers shed so that they start elsewhere: stolen by an idle node, or corrected."""
    promotions: int = 0
    """Queueable containers that became guaranteed."""

    @computed_field
    def lost_ratio(self) -> float | None:
        """The part of all work that kills lost, and that is done twice; null without any work."""
        work_s = self.work_s + self.lost_s
        return round(self.lost_s / work_s, 4) if work_s > 0 else None


class Counted(BaseModel):
    """How often something was decided or happened."""

    what: str
    why: str
    count: int


class AppStory(BaseModel):
    """All containers of an application, summed up."""

    app_id: str
    story: list[str] = []
    """The same in sentences."""
    application: ApplicationRecord | None = None
    live: ApplicationInfo | None = None
    """As it is now; null when it has ended."""
    routes: list[Counted] = []
    """Allocated containers by kind and reason, the most frequent first; what goes beyond 20 reasons is summed up."""
    choices: list[Counted] = []
    """Other decisions by slot and what was chosen; weights are counted in."""
    events: list[Counted] = []
    """Reported events of its containers, by kind and cause."""
    allocation_g: DelayFigures = DelayFigures(count=0)
    allocation_q: DelayFigures = DelayFigures(count=0)
    queueing: DelayFigures = DelayFigures(count=0)
    ledger: LedgerRow | None = None
    retried: int = 0
    """Containers that were asked for because others were lost."""


class KillRow(BaseModel):
    """Containers of one queue and kind that ran and were killed for one cause."""

    cause: str
    """room: a guaranteed container needed it; memory: the node ran out of it; proxy: ordered by the proxy;
    resourcemanager, nodemanager: preempted by YARN itself."""
    queue: str
    """"" for applications that are not known any more."""
    kind: str
    """G or Q."""
    count: int
    lost_s: float
    """Their task-seconds."""


class Kills(BaseModel):
    """Kills since a time; the greatest loss first."""

    since_s: float
    until_s: float | None
    items: list[KillRow]


class ClusterHistory(BaseModel):
    """The cluster over time: a list for each sum, as long as `t`. Steps without a sample are left out."""

    step_s: float
    t: list[float]
    """Beginnings of the steps, Unix seconds."""
    values: dict[str, list[float | None]]
    """Means of the steps: nodes, nodes_usable, cores, g, q, shrunk, waiting, idle (in cores), count_g, count_q,
    count_shrunk, count_waiting, memory_mb, g_mb, q_mb, pending_g, pending_q; and p50 and p95 of the time from ask to
    delivery within 30 s, with the waits so far of containers that still wait: delay_q_p50_s, delay_q_p95_s,
    delay_g_p50_s, delay_g_p95_s, null where nothing was allocated and nothing waits."""
    now_s: float | None = None
    """Time of the last sample; null before the first one."""
    now: dict[str, float | None] = {}
    """The last sample."""


class ContainerSpan(BaseModel):
    """What one container did at a node; times are Unix seconds, null where they are not known."""

    container_id: str
    app_id: str = ""
    kind: str = "G"
    am: bool = False
    held_s: float | None = None
    """Since when its start waited."""
    started_s: float | None = None
    ended_s: float | None = None
    """Null for one that is still there."""
    end: str = ""
    """How it ended: ended, killed, shed, stopped, failed, lost."""
    cause: str = ""
    reason: str = ""
    state: str = ""
    """Its state now; "" for one that is over."""
    why: str = ""
    """Why it waits or was shrunk."""
    times_shrunk: int = 0
    shrunk: list[tuple[float, float]] = []
    """From and to, as far as the proxy saw it."""


class NodeTimeline(BaseModel):
    """Containers at one node in the last minutes, the earliest first."""

    node_id: str
    from_s: float
    to_s: float
    containers: list[ContainerSpan]
    truncated: bool
    """Whether older events were left out because there were many."""
