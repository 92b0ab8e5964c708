"""The words that all policies share: asks, applications, queues, nodes and containers as frozen views.

Units: memory in MB (2**20 bytes), CPU in vcores, times in seconds. Node ids are YARN's `host:port`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Any, Final

from policies.value_types import changer, draft_of, value_type

Candidates = Sequence[tuple[str, float]]
"""Nodes for one container with their scores, best first; the lower the better."""


class Kind(StrEnum):
    """How a container is granted: by the ResourceManager's own scheduler, or queued at a node (Mercury §3)."""

    GUARANTEED = "G"
    QUEUEABLE = "Q"


class Way(StrEnum):
    """How a running container gives way to another one."""

    SHRINK = "shrink"
    """It keeps its memory and a sliver of CPU (Kairos §4.4)."""
    FREEZE = "freeze"
    """It stands still."""
    KILL = "kill"
    NONE = "none"
    """It does not."""


class JobClass(StrEnum):
    """Whether a job's tasks are short or long (Hawk, thesis §2.3.3)."""

    SHORT = "short"
    LONG = "long"
    NONE = ""
    """It is not known, or nobody asks."""


@value_type
@dataclass(frozen=True, slots=True)
class Resources:
    """An amount of memory (MB) and CPU (vcores)."""

    memory_mb: int = 0
    vcores: float = 0

    def __add__(self, addend: Resources) -> Resources:
        draft = _new(_Draft)
        draft.memory_mb = self.memory_mb + addend.memory_mb
        draft.vcores = self.vcores + addend.vcores
        draft.__class__ = Resources
        return draft  # type: ignore[no-any-return]

    def __sub__(self, subtrahend: Resources) -> Resources:
        draft = _new(_Draft)
        draft.memory_mb = self.memory_mb - subtrahend.memory_mb
        draft.vcores = self.vcores - subtrahend.vcores
        draft.__class__ = Resources
        return draft  # type: ignore[no-any-return]

    def fits(self, room: Resources) -> bool:
        """Return whether this amount is within `room` in both dimensions."""
        return self.memory_mb <= room.memory_mb and self.vcores <= room.vcores


_new: Final[Callable[[Any], Any]] = object.__new__
_Draft: Final = draft_of(Resources)
"""Sums are made often, so that they are made without a call."""
_NOTHING: Final = Resources()


def total(parts: Iterable[Resources]) -> Resources:
    """Return the sum of amounts; the same as adding them one by one, without an object for each."""
    memory_mb = 0
    vcores: float = 0
    for part in parts:
        memory_mb += part.memory_mb
        vcores += part.vcores
    return Resources(memory_mb, vcores)


@value_type
@dataclass(frozen=True, slots=True)
class AppView:
    """An application as the policies see it."""

    id: str
    queue: str = "root.default"
    user: str = ""
    type: str = "YARN"
    """YARN's application type, upper case: MAPREDUCE, SPARK, TEZ, YARN (distributed shell)."""
    name: str = ""
    tags: frozenset[str] = frozenset()
    priority: int = 0
    submitted_s: float = 0.0
    progress: float = 0.0
    """What its application master reported with its last request, 0..1."""
    live_g: int = 0
    """Guaranteed containers that the application holds now."""
    live_q: int = 0
    """Queueable containers that it holds: waiting or running at a node, asked for, or wanted."""
    asked_g: int = 0
    """Guaranteed containers that it asked for and does not hold yet; running ones that are being promoted count too."""
    asked_g_size: Resources = Resources()
    """Size of those."""
    used_g: Resources = Resources()
    used_q: Resources = Resources()
    """By those of its queueable containers that have a node: wanted ones do not count."""
    next_q: Resources = Resources()
    """Size of its most urgent ask that may go queueable, while some node has room for it; else zero."""
    job_class: JobClass = JobClass.NONE
    kept_off: frozenset[str] = frozenset()
    """Hosts on which nothing of it is to start, since they are kept for short jobs."""


@value_type
@dataclass(frozen=True, slots=True)
class JobView:
    """A job as a `classify` policy sees it."""

    app: AppView
    task_s: float
    """Mean expected duration of the tasks that it wants or runs."""
    known: bool
    """Whether the duration of any of them is learnt or given; else it is `estimate.default_s`."""
    earlier_s: Sequence[float] = ()
    """Mean durations of the tasks of jobs that ended lately, ascending, shape (jobs,); at most 1,000."""


@value_type
@dataclass(frozen=True, slots=True)
class WorkShares:
    """Who brought the work of the last hours."""

    short_ratio: float | None = None
    """The part that short jobs had of all task-seconds of jobs with a class, 0..1; None while too few ended."""


@value_type
@dataclass(frozen=True, slots=True)
class Portion:
    """What is left to one application of its share at one request priority, where whole applications are admitted."""

    in_service: bool
    core_left: int = 0
    """Core containers that it does not have yet."""
    elastic_left: int = 0
    """Elastic containers that it may still have."""
    why: str = ""
    """Why it waits."""


@value_type
@dataclass(frozen=True, slots=True)
class Ask:
    """One wanted container."""

    app: AppView
    priority: int
    """YARN's: a lower number is more urgent."""
    resources: Resources
    request_id: int = -1
    hosts: frozenset[str] = frozenset()
    racks: frozenset[str] = frozenset()
    anywhere: bool = True
    """Whether the rows let it go off its hosts and racks (relaxLocality on ANY)."""
    label: str = ""
    blacklist: frozenset[str] = frozenset()
    expected_s: float = 10.0
    """How long the task is expected to run."""
    known: bool = True
    """Whether that is learnt or given by someone; else it is `estimate.default_s`, which says nothing of this task."""
    spread_s: float = 0.0
    """Standard deviation of the run times of its siblings; 0 when not known."""
    retries: int = 0
    """How often this task's queueable containers were shed or killed before."""
    work_s: float = inf
    """Work of its application, in task-seconds: the larger of what is open and what was done; infinite when unknown."""
    at_s: float = 0.0
    """When a place is looked for, Unix seconds."""
    steer: str = ""
    """The node for which a `steal` or `correct` policy had it shed; "" for none."""
    shunned: frozenset[str] = frozenset()
    """Ids of nodes that are taken last: a task of its application runs much longer there than expected."""
    matched: str = ""
    """The node that a `match` policy chose for it; "" for none."""
    portion: Portion | None = None
    """What its application has left of its share at this priority, where whole applications are admitted; None where
    they are not, and while the container is being routed."""

    def tier(self, node: NodeView) -> int | None:
        """Return 0 for node-local, 1 for rack-local, 2 for off-switch, None where the ask may not go.

        Respects blacklists (of hosts and of racks, SchedulerAppUtils), node labels (exclusive partitions), node state
        and the size of the node. Off its hosts and racks it goes only where relaxLocality on ANY lets it
        (LocalityAppPlacementAllocator.canDelayTo), even when it names none.
        """
        if not node.usable or node.label != self.label:
            return None
        if self.blacklist and not self.blacklist.isdisjoint((node.host, node.rack, node.id)):
            return None
        size, capacity = self.resources, node.capacity
        if size.memory_mb > capacity.memory_mb or size.vcores > capacity.vcores:
            return None
        if node.limit_q is not None and not node.within_limit(self.resources, _NOTHING):
            return None
        if self.hosts and node.host in self.hosts:
            return 0
        if self.racks and node.rack in self.racks:
            return 1
        return 2 if self.anywhere else None


@value_type
@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as the coordinator knows it: YARN's own record, the sidecar's last report, own placements added."""

    id: str
    host: str = ""
    rack: str = "/default-rack"
    label: str = ""
    usable: bool = True
    """RUNNING in the ResourceManager, with a recent report of its sidecar, and not draining."""
    capacity: Resources = Resources()
    used_g: Resources = Resources()
    used_q: Resources = Resources()
    """Use of queueable containers that have started."""
    queue_length: int = 0
    ahead: int = 0
    """How many in the queue were bound ahead and wait for a core of their own; others may start before them."""
    queued_s: float = 0.0
    """Tq: time until the node will have started all that is queued now, by estimates."""
    remaining_s: float = 0.0
    """Tr: time until the first running container ends or room is there; 0 when there is room."""
    since_queueable_s: float = 0.0
    """Tl: time since a queueable container last ran here (0 when one runs, or none ever waited)."""
    containers: int = 0
    """Containers that run or wait here, application masters not counted; own placements are."""
    apps: frozenset[str] = frozenset()
    """Applications of these containers."""
    slots: int = 0
    """How many of them the node starts at once: its cores, and those that it may hold shrunk (N + Q of Kairos)."""
    attained_sd_s: float = 0.0
    """Standard deviation of the service that they have attained (Kairos §4.3.3)."""
    attained_sum_s: float = 0.0
    """What they have attained together."""
    idle_s: float = 0.0
    """How long it has had room with nothing waiting, for a `steal` policy."""
    limit_q: Resources | None = None
    """Limit of the `police` policy to queueable containers here; None: all that guaranteed ones leave."""
    slow_ratio: float = 1.0
    """Factor by which tasks take longer here than on other nodes; reported waits include it."""
    yields_level: float = -1.0
    """Level (`service_levels`) of the work of the application whose container would give way to one beyond the cores;
    -1 where none would."""
    frees_s: float = inf
    """When the first of its containers is expected to end, from its last report on; it is counted where it is full."""
    waits: Sequence[tuple[Resources, float]] = ()
    """Waits by size, in seconds, as last reported: how long a container of each size would wait behind the queue. Nodes
    report them where a `place` policy looks at them (`by_size`)."""
    unreported_s: float = 0.0
    """Expected work of containers on their way that these do not know yet, over the containers that run at a time."""
    waits_s: float = 0.0
    """When they were reported, Unix seconds."""
    success_ratio: float = 1.0
    """Part of the containers there that were not lost, lately."""

    @property
    def load(self) -> float:
        """Return the larger of the used shares of memory and vcores, 0 when empty."""
        used_g, used_q, capacity = self.used_g, self.used_q, self.capacity
        memory = (used_g.memory_mb + used_q.memory_mb) / (capacity.memory_mb or 1)
        vcores = (used_g.vcores + used_q.vcores) / (capacity.vcores or 1)
        return memory if memory > vcores else vcores

    @property
    def wait_s(self) -> float:
        """Return how long one more queueable container would wait here: Tq + Tr (Mercury §4.2)."""
        return self.queued_s + self.remaining_s

    def frees_within(self, resources: Resources, ahead_s: float) -> bool:
        """Return whether one container of this size could wait here for a core that is expected to be free within
        `ahead_s`: nothing else waits, nor runs beyond the cores.
        """
        used = self.used_g.vcores + self.used_q.vcores
        within = used <= self.capacity.vcores < used + resources.vcores
        roomy = not self.slots or self.has_room(resources)
        return self.usable and self.frees_s <= ahead_s and within and not self.queue_length and roomy

    def starts(self, resources: Resources) -> bool:
        """Return whether one more container of this size starts here now, beside all that runs at its full size."""
        used_g, used_q, capacity = self.used_g, self.used_q, self.capacity
        if self.queue_length or used_g.vcores + used_q.vcores + resources.vcores > capacity.vcores:
            return False
        if self.slots or self.limit_q is not None:
            return self.has_room(resources)
        return used_g.memory_mb + used_q.memory_mb + resources.memory_mb <= capacity.memory_mb

    def load_where_it_starts(self, resources: Resources) -> float | None:
        """Return the load of the node where one more container of this size starts now; None where it does not.

        It is `load` where `starts` holds, for policies that look at all nodes.
        """
        used_g, used_q, capacity = self.used_g, self.used_q, self.capacity
        all_vcores, vcores = capacity.vcores, used_g.vcores + used_q.vcores
        if self.queue_length or vcores + resources.vcores > all_vcores:
            return None
        all_mb, memory_mb = capacity.memory_mb, used_g.memory_mb + used_q.memory_mb
        if memory_mb + resources.memory_mb > all_mb:
            return None
        if (self.slots or self.limit_q is not None) and not self.has_room(resources):
            return None
        memory, cpu = memory_mb / (all_mb or 1), vcores / (all_vcores or 1)
        return memory if memory > cpu else cpu

    def has_room(self, resources: Resources) -> bool:
        """Return whether one more container of this size could start here now.

        Where containers share the cores (`slots` is set) slots and memory count, else memory and vcores. Containers
        that wait for a core take none of it.
        """
        used_g, used_q, capacity = self.used_g, self.used_q, self.capacity
        if used_g.memory_mb + used_q.memory_mb + resources.memory_mb > capacity.memory_mb:
            return False
        if self.limit_q is not None and not self.within_limit(resources, used_q):
            return False
        if self.slots:
            return self.containers - self.ahead < self.slots
        return used_g.vcores + used_q.vcores + resources.vcores <= capacity.vcores

    def has_memory(self, resources: Resources) -> bool:
        """Return whether one more container of this size has memory here, be it beside shrunk ones."""
        return self.used_g.memory_mb + self.used_q.memory_mb + resources.memory_mb <= self.capacity.memory_mb

    def within_limit(self, resources: Resources, used_q: Resources) -> bool:
        """Return whether a container fits into the limit of the `police` policy, beside those that use `used_q`.

        Where containers share the cores memory alone counts, since nothing is killed for CPU there.
        """
        if self.limit_q is None:
            return True
        used = used_q + resources
        return used.memory_mb <= self.limit_q.memory_mb and (bool(self.slots) or used.vcores <= self.limit_q.vcores)


def loads_where_it_starts(views: Iterable[NodeView], size: Resources) -> list[tuple[NodeView, float]]:
    """Return the nodes where one more container of a size starts now, each with its load."""
    return [(view, load) for view in views if (load := view.load_where_it_starts(size)) is not None]


@value_type
@dataclass(frozen=True, slots=True)
class ParentView:
    """A YARN queue that has others below it, with the use of all of them."""

    name: str
    max_capacity: Resources = Resources()
    """Zero while it is not known: then it limits nothing."""
    used_g: Resources = Resources()
    used_q: Resources = Resources()


@value_type
@dataclass(frozen=True, slots=True)
class QueueView:
    """A YARN queue: its capacities in the Capacity Scheduler, and its use."""

    name: str
    max_capacity: Resources = Resources()
    used_g: Resources = Resources()
    used_q: Resources = Resources()
    """By queueable containers that have a node: asked for there, waiting or running."""
    user_used_q: dict[str, Resources] = field(default_factory=dict)
    user_used_g: Mapping[str, Resources] = field(default_factory=dict)
    user_limit: Resources | None = None
    """The scheduler's limit for one user here: capacity times user-limit-factor; None for no limit."""
    parents: tuple[ParentView, ...] = ()
    """The queues above it, the nearest first."""
    priority: int = 0
    """YARN's priority of the queue: a higher number goes first."""
    cluster: Resources = Resources()
    """Capacity of all nodes that take queueable containers."""
    cluster_used_q: Resources = Resources()
    """Use by the queueable containers of all YARN queues that have a node."""
    labels: frozenset[str] = frozenset()
    """Labels that the queue may use; `*` for all."""
    default_label: str = ""
    """The label of asks that name none."""
    capacity: Resources = Resources()
    """Capacity that the Capacity Scheduler guarantees; the steady fair share under the Fair Scheduler."""
    places_ratio: float = 1.0
    """Containers that nodes start at once for each vcore that YARN knows of: above 1 where some of them are shrunk."""

    def plus(self, user: str, more: Resources) -> QueueView:
        """Return the queue with `more` used by queueable containers of a user; negative for less."""
        by_user = dict(self.user_used_q)
        before = by_user.get(user)
        by_user[user] = before + more if before is not None else more
        parents = tuple([_parent_with(parent, parent.used_q + more) for parent in self.parents])
        return _queue_with(self, self.used_q + more, by_user, parents, self.cluster_used_q + more)


_parent_with: Final = changer(ParentView, "used_q")
_queue_with: Final = changer(QueueView, "used_q", "user_used_q", "parents", "cluster_used_q")


@value_type
@dataclass(frozen=True, slots=True)
class ContainerView:
    """A container at a node, waiting or running."""

    id: str
    app: str
    kind: Kind
    resources: Resources
    priority: int = 0
    """YARN's request priority: a lower number is more urgent."""
    app_type: str = "YARN"
    queue_priority: int = 0
    app_priority: int = 0
    """YARN's application priority: a higher number goes first."""
    job_submitted_s: float = 0.0
    arrived_s: float = 0.0
    started_s: float | None = None
    expected_s: float = 10.0
    attained_s: float | None = None
    """CPU seconds that it was given; None when not measured."""
    memory_used_mb: int | None = None
    """Resident memory; None when not measured."""
    precedence: int = 0
    """Precedence: a lower number is needed first (see `rm_proxy.attempt.frameworks`)."""
    queue: str = ""
    user: str = ""
    spread_s: float = 0.0
    """Standard deviation of the run times of its siblings; 0 when not known."""
    job_remaining_s: float = 0.0
    """Work that its job has left, by estimates: tasks that wait and run, in task-seconds (SRPT's size)."""
    bypassed_s: float = 0.0
    """Expected work of those that came later and were started before it (Eagle §3.4: bypass)."""
    starts_in_s: float | None = None
    """For a waiting one: the estimated time until its start; None without an estimate."""
    sheds: int = 0
    """How often its task was shed or killed before."""
    placed_wait_s: float | None = None
    """For a waiting one: how long the queue was that it was placed behind, by the estimates of that time."""
    stage_wait_s: float | None = None
    """For a waiting one: the average wait, past and expected, of its application's containers of its priority."""
    movable: bool = True
    """For a waiting one: whether it may go to the node in question, or to another one at all."""
    job_class: JobClass = JobClass.NONE
    """Of its application."""
    over_share: bool = False
    """Whether its application has more elastic containers than its share, so that this one gives way before others."""
    protected: bool = False
    """Whether it has run for less than `policies.protect` says for its queue, so that it gives way after all others."""

    @property
    def remaining_s(self) -> float:
        """Return how much longer it is expected to run after its attained service, at least a tenth of the estimate."""
        done_s = self.attained_s or 0.0
        return max(self.expected_s - done_s, 0.1 * self.expected_s)


@value_type
@dataclass(frozen=True, slots=True)
class NodeQueue:
    """A node with its queueable containers, for policies that move some of them."""

    node: NodeView
    running: tuple[ContainerView, ...] = ()
    waiting: tuple[ContainerView, ...] = ()
    """In the order in which they will start."""


@value_type
@dataclass(frozen=True, slots=True)
class ShedTarget:
    """Limits of a node's queue; containers beyond them are shed from the end. None: no limit."""

    max_wait_s: float | None = None
    max_queue: int | None = None
    reason: str = ""
    max_sheds: int = 2
    """A task that was shed or killed this many times is not shed again."""
    max_share_ratio: float = 1.0
    """At most this share of the queue is shed within a second, but always one container."""
    settle_s: float = 0.0
    """Containers that have waited less than this stay: the figures behind the target may be older."""


@value_type
@dataclass(frozen=True, slots=True)
class Gap:
    """Free room at a node that the first of its queue does not fit into, and what it costs others to use it."""

    head: ContainerView
    """The first of the queue."""
    head_starts_s: float
    """When it is expected to start, in seconds from now, if all start in their order."""
    delay_s: float
    """How much later the one that is delayed most is expected to start if another container fills the gap."""


@value_type
@dataclass(frozen=True, slots=True)
class Usual:
    """Use of a node by guaranteed containers in one quarter of an hour of the week, in the weeks before."""

    begins_s: float
    """Unix time at which it comes (or came) next."""
    ends_s: float
    weeks: int
    """How many weeks were seen."""
    mean: Resources
    peak: Resources


@value_type
@dataclass(frozen=True, slots=True)
class NodeUse:
    """Use of a node by guaranteed containers: now, lately, and usually in the coming time."""

    node: str
    capacity: Resources
    used_g: Resources
    recent: tuple[Resources, ...] = ()
    """The most of each of the last minutes, at most 60; the running one first."""
    usual: tuple[Usual, ...] = ()
    """The quarters of an hour from now on, at least 4 hours of them; those that were never seen are left out."""


@value_type
@dataclass(frozen=True, slots=True)
class Limit:
    """The limit to queueable containers on a node, with the reason in words."""

    resources: Resources
    reason: str


@value_type
@dataclass(frozen=True, slots=True)
class Route:
    """A routing decision with its reason, in words for `quicksilver explain`."""

    kind: Kind
    reason: str
    slot: str = "route"
    """Whose decision it is: route, or quota (admit, window) for one that a route had made queueable."""
    version: str = ""
    """Of the settings that decided."""


@value_type
@dataclass(frozen=True, slots=True)
class Placement:
    """A placement decision: the node (None when no node may take the ask) and the candidates with their scores."""

    node: str | None
    scores: tuple[tuple[str, float], ...] = ()
    """(node id, score) of the best candidates, best first; lower is better; seconds or containers, as `unit` says."""
    unit: str = "s"
    reason: str = ""
    wait_s: float | None = None
    """How long the node's queue was at that time, in seconds; the coordinator fills it in."""
    wait: bool = False
    """Without a node: nodes that may take the ask are full now; it stays wanted until one of them is not."""
    ahead: bool = False
    """Whether the container waits at the node for a core that is expected to come free in a moment."""
    slot: str = "place"
    """Whose decision it is: place, or admit for one that gets no node by its tokens."""
    version: str = ""
    """Of the settings that decided."""
