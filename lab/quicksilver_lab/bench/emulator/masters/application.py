"""The master of a whole application (Zoe, §2.1): core components that must all run, and elastic ones that help.

A machine: answers of the ResourceManager and reports of the nodes go in; asks, starts and stops come out. Everything is
asked for at once, core and elastic components at a priority each. Work is done while all core components run, by the
elastic ones and by the core ones without two, which coordinate (§2.2); in a rigid application each core component
works. A component that has a share of its CPU does that share of its work. A component that ends too early is asked for
again; the lack of a core one stops the work until it is back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_lab.bench.emulator.model import JobSpec
from rm_proxy.domain.ids import container_id_text, copied

CORE_PRIORITY: Final = 10
"""Of the first service of a described application (`quicksilver_apps.description.model`)."""
ELASTIC_PRIORITY: Final = 11
COORDINATORS: Final = 2
"""Core components that do no work, as Spark's client and master (§2.2)."""
PREEMPTED: Final = -102
_MOST_FAILURES: Final = 100
_MOST_ERRORS: Final = 20

Served = Callable[[str, str], float | None]
"""A node id and a container id to the seconds at full speed that its process has had; None when there is none."""


@dataclass(frozen=True, slots=True)
class ApplicationSpec:
    """One application. Sizes in MB of one component; times in seconds."""

    number: int
    arrives_s: float
    klass: str
    core: int
    elastic: int
    core_mb: int
    elastic_mb: int
    runtime_s: float
    """With all of its components."""
    coordinators: int = 0
    """Core components that do no work."""
    queue: str = "default"
    user: str = "bench"

    def __post_init__(self) -> None:
        """Raise ValueError for what makes no sense."""
        if not 0 <= self.coordinators < self.core or self.elastic < 0 or not self.runtime_s > 0:
            raise ValueError(
                f"application {self.number}: {self.core} core components of which {self.coordinators} coordinate, "
                f"{self.elastic} elastic ones, {self.runtime_s} s: at least one core component works, for some time"
            )

    @property
    def work_s(self) -> float:
        """W of §2.2, in worker-seconds."""
        return self.runtime_s * (self.core - self.coordinators + self.elastic)

    @property
    def memory_mb(self) -> int:
        """Of all components."""
        return self.core * self.core_mb + self.elastic * self.elastic_mb

    @property
    def tags(self) -> tuple[str, ...]:
        """YARN's application tags, as of a described application."""
        return (f"core:{CORE_PRIORITY}={self.core}", f"runtime_s:{self.runtime_s:.3f}")

    @property
    def job(self) -> JobSpec:
        """What `Submitter` has to know."""
        return JobSpec(self.number, self.arrives_s, self.klass, (), self.queue, self.user)


@dataclass(slots=True)
class ApplicationSpan:
    """The life of one container of an application; `ended_s` is the end of its process, or of the container."""

    core: bool
    memory_mb: int
    granted_s: float
    began_s: float | None = None
    ended_s: float | None = None


@dataclass(slots=True)
class MasterRecord:
    """What became of one application. Moments are readings of the masters' clock, seconds."""

    number: int
    klass: str
    runtime_s: float
    submitted_s: float
    registered_s: float | None = None
    first_core_s: float | None = None
    """A core container was granted."""
    began_s: float | None = None
    """All core components ran for the first time."""
    ended_s: float | None = None
    """The work was done."""
    preempted: int = 0
    """Elastic containers that were ended for others (exit status -102)."""
    lost_elastic: int = 0
    """Elastic containers that ended otherwise."""
    lost_core: int = 0
    spans: list[ApplicationSpan] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def note(self, error: str) -> None:
        """Record an error, up to a limit."""
        if len(self.errors) < _MOST_ERRORS:
            self.errors.append(error)


@dataclass(frozen=True, slots=True)
class Component:
    """A granted container that is to be started or stopped."""

    container_id: str
    container: y.ContainerProto


@dataclass(slots=True)
class _Holding:
    """A container of the application, until YARN reports its end."""

    component: Component
    node: str
    span: ApplicationSpan
    served_s: float = 0.0
    """At the last `advance`."""

    @property
    def runs(self) -> bool:
        return self.span.began_s is not None and self.span.ended_s is None


class ApplicationAm:
    """One application; `request`, `answered`, `began`, `refused` and `advance` are its life, until `over`."""

    def __init__(self, spec: ApplicationSpec, record: MasterRecord) -> None:
        """Ask for all components. record: what becomes of it, which the caller began."""
        self.spec, self.record = spec, record
        self.left_s = spec.work_s
        """Work that is left, in worker-seconds."""
        self.broken = ""
        """Why the application failed, "" when it did not."""
        self.exits: Counter[int] = Counter()
        self.surplus = 0
        """Containers that were granted beyond need, and released."""
        self._missing = {True: spec.core, False: spec.elastic}
        """Components that are asked for, by whether they are core."""
        self._changed = {core for core, count in self._missing.items() if count}
        self._holdings: dict[str, _Holding] = {}
        self._releasing: dict[str, y.ContainerIdProto] = {}
        self._to_release: list[y.ContainerIdProto] = []
        self._failures = 0

    @property
    def over(self) -> bool:
        """Whether its work is done, or it has failed."""
        return self.left_s <= 0 or bool(self.broken)

    def request(self) -> y.AllocateRequestProto | None:
        """Return the next heartbeat without its response id, None when it asks and releases nothing."""
        if not (self._changed or self._to_release):
            return None
        done = min(1.0, 1.0 - self.left_s / self.spec.work_s)
        request = y.AllocateRequestProto(
            ask=[self._row(core) for core in sorted(self._changed, reverse=True)],
            release=self._to_release,
            progress=done,
        )
        request.blacklist_request.SetInParent()
        self._changed, self._to_release = set(), []
        return request

    def resync(self) -> None:
        """Have everything sent again that is outstanding: the ResourceManager has forgotten this master."""
        self._changed = {core for core, count in self._missing.items() if count}
        self._to_release = list(self._releasing.values())

    def _row(self, core: bool) -> y.ResourceRequestProto:
        row = y.ResourceRequestProto(resource_name="*", relax_locality=True, num_containers=self._missing[core])
        row.priority.priority = CORE_PRIORITY if core else ELASTIC_PRIORITY
        row.capability.memory, row.capability.virtual_cores = self._size_mb(core), 1
        row.execution_type_request.execution_type = y.GUARANTEED
        return row

    def _size_mb(self, core: bool) -> int:
        return self.spec.core_mb if core else self.spec.elastic_mb

    # What happens

    def answered(self, answer: y.AllocateResponseProto, now_s: float) -> list[Component]:
        """Handle an answer; return what is to be started."""
        for status in answer.completed_container_statuses:
            self._completed(status, now_s)
        starts = [self._granted(container, now_s) for container in answer.allocated_containers]
        return [component for component in starts if component is not None]

    def _granted(self, container: y.ContainerProto, now_s: float) -> Component | None:
        component = Component(container_id_text(container.id), container)
        core = container.priority.priority == CORE_PRIORITY
        if self.over or not self._missing[core]:
            self.surplus += 1
            self._release(component)
            return None
        self._missing[core] -= 1
        if core and self.record.first_core_s is None:
            self.record.first_core_s = now_s
        span = ApplicationSpan(core, self._size_mb(core), now_s)
        self.record.spans.append(span)
        node = f"{container.nodeId.host}:{container.nodeId.port}"
        self._holdings[component.container_id] = _Holding(component, node, span)
        return component

    def _release(self, component: Component) -> None:
        self._releasing[component.container_id] = released_id = copied(component.container.id)
        self._to_release.append(released_id)

    def began(self, container_id: str, now_s: float) -> None:
        """Handle the start of a container's process."""
        holding = self._holdings.get(container_id)
        if holding is None:
            return
        holding.span.began_s = now_s
        if self.record.began_s is None and self.running(core=True) == self.spec.core:
            self.record.began_s = now_s

    def running(self, *, core: bool) -> int:
        """Return how many components run, core or elastic ones, as far as is known."""
        return sum(holding.runs and holding.span.core == core for holding in self._holdings.values())

    def holds(self, container_id: str) -> bool:
        """Return whether a container is held: granted, and its end is not reported."""
        return container_id in self._holdings

    def refused(self, container_id: str, why: str, now_s: float) -> None:
        """Handle a container that could not be started: it is given back, and asked for again."""
        holding = self._holdings.pop(container_id, None)
        if holding is not None:
            self._release(holding.component)
            self._lost(holding, now_s)
            self._failed(f"{container_id} was not started: {why}")

    def _completed(self, status: y.ContainerStatusProto, now_s: float) -> None:
        container_id = container_id_text(status.container_id)
        self._releasing.pop(container_id, None)
        holding = self._holdings.pop(container_id, None)
        if holding is None:
            return
        self.exits[status.exit_status] += 1
        self._lost(holding, now_s)
        if holding.span.core:
            self.record.lost_core += 1
        elif status.exit_status == PREEMPTED:
            self.record.preempted += 1
        else:
            self.record.lost_elastic += 1
        if status.exit_status >= 0:
            self._failed(f"{container_id} exit {status.exit_status}: {status.diagnostics.strip()[:200]}")

    def _lost(self, holding: _Holding, now_s: float) -> None:
        if holding.span.ended_s is None:
            holding.span.ended_s = now_s
        self._missing[holding.span.core] += 1
        self._changed.add(holding.span.core)

    def _failed(self, why: str) -> None:
        self._failures += 1
        self.record.note(why)
        if self._failures > _MOST_FAILURES:
            self.broken = self.broken or f"{self._failures} containers failed, at last: {why}"

    # Work

    def advance(self, now_s: float, served: Served) -> None:
        """Handle what the processes did since the last call: work is done when all core components ran all the time.

        The slowest core component sets the pace of all of them.
        """
        core_s: list[float] = []
        elastic_s = 0.0
        for container_id, holding in self._holdings.items():
            if not holding.runs:
                continue
            seconds = served(holding.node, container_id)
            if seconds is None:
                holding.span.ended_s = now_s
                continue
            delta_s, holding.served_s = seconds - holding.served_s, seconds
            if holding.span.core:
                core_s.append(delta_s)
            else:
                elastic_s += delta_s
        if not self.over and len(core_s) == self.spec.core:
            self.left_s -= (self.spec.core - self.spec.coordinators) * min(core_s) + elastic_s
            if self.left_s <= 0:
                self.record.ended_s = now_s

    def stops(self) -> list[Component]:
        """Return the containers that are held, for the end of the application."""
        return [holding.component for holding in self._holdings.values()]

    def close(self, now_s: float) -> None:
        """Handle the end of the application: no container is held from now on."""
        for holding in self._holdings.values():
            if holding.span.ended_s is None:
                holding.span.ended_s = now_s
        self._holdings.clear()
