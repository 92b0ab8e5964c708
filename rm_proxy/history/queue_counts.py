"""What the applications of each YARN queue want, hold and use at one time, and the last day of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final

from policies.model import Resources
from quicksilver.common.messages import ContainerState
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.nodes.nodes import Node
from rm_proxy.history.time_series import Columns, TimeSeries

LEVELS: Final = ((10.0, 180), (60.0, 240), (600.0, 144))
"""Seconds of a step, and steps: half an hour, four hours, a day."""
MAX_QUEUES: Final = 200
"""Queues with a history; of more, those that were idle for the longest time lose it."""
_ROOT: Final = "root"


@dataclass(slots=True)
class QueueSample:
    """One queue with all below it."""

    g_vcores: float = 0.0
    """Used by guaranteed containers."""
    q_vcores: float = 0.0
    g_mb: float = 0.0
    q_mb: float = 0.0
    wanted_g: int = 0
    """Guaranteed containers asked for and not delivered yet."""
    wanted_q: int = 0
    held: int = 0
    """Delivered containers that wait at their nodes."""
    apps: int = 0
    """Applications that run."""

    def use(self, used_g: Resources, used_q: Resources) -> None:
        """Set what it uses."""
        self.g_vcores, self.g_mb = used_g.vcores, float(used_g.memory_mb)
        self.q_vcores, self.q_mb = used_q.vcores, float(used_q.memory_mb)

    def values(self) -> dict[str, float]:
        """Return all by name."""
        return {name: getattr(self, name) for name in NAMES}


NAMES: Final = tuple(column.name for column in fields(QueueSample))


def held_by_app(nodes: Iterable[Node], counts: dict[str, int]) -> None:
    """Count the containers that wait at nodes into `counts`, by application."""
    for node in nodes:
        for container in node.report.containers if node.report is not None else ():
            if container.state is ContainerState.WAITING:
                counts[container.app_id] = counts.get(container.app_id, 0) + 1


def sample_queues(coordinator: Coordinator, counts: dict[str, int]) -> dict[str, QueueSample]:
    """Return all queues by path, each with the sums of all below it. counts: containers that wait at nodes, by app."""
    samples = {path: QueueSample() for path in coordinator.queues}
    for path, sample in samples.items():
        view = coordinator.inventory.queue(path)
        if view is not None:
            sample.use(view.used_g, view.used_q)
    for attempt in coordinator.attempts.living():
        app = coordinator.apps.app(attempt.app_id)
        if app is None:
            continue
        wanted_g = wanted_q = 0
        for entry in attempt.entries:
            wanted_g += entry.g_share
            wanted_q += entry.q_wanted + len(entry.pending)
        for path in _upwards(app.queue):
            known = samples.get(path)
            if known is not None:
                known.wanted_g += wanted_g
                known.wanted_q += wanted_q
                known.held += counts.get(attempt.app_id, 0)
                known.apps += 1
    return samples


def _upwards(path: str) -> Iterable[str]:
    """Yield a queue and those above it."""
    while path:
        yield path
        path = path.rpartition(".")[0]


class QueueHistory:
    """A machine: samples of queues in, columns out. A queue without any use is sampled once, and then when it has."""

    def __init__(self) -> None:
        self._series: OrderedDict[str, TimeSeries] = OrderedDict()
        self._idle: dict[str, float] = {}
        """By queue: since when it is idle."""

    def add(self, now_s: float, samples: dict[str, QueueSample]) -> None:
        """Count one sample of all queues."""
        nothing = QueueSample()
        for path, sample in samples.items():
            idle = sample == nothing
            if idle and (path in self._idle or path not in self._series):
                continue
            series = self._series.setdefault(path, TimeSeries(NAMES, LEVELS))
            self._series.move_to_end(path)
            if idle:
                self._idle[path] = now_s
            elif path in self._idle:
                del self._idle[path]
                series.add(now_s - LEVELS[0][0], nothing.values())  # it was idle until then
            series.add(now_s, sample.values())
        while len(self._series) > MAX_QUEUES:
            gone, _ = self._series.popitem(last=False)
            self._idle.pop(gone, None)

    def last(self, path: str, last_s: float, now_s: float) -> Columns:
        """Return a queue's last seconds; nothing if it was idle ever since, zeros up to now while it is idle."""
        columns = (self._series.get(path) or TimeSeries(NAMES, LEVELS)).last(last_s, now_s)
        idle_s = self._idle.get(path)
        if idle_s is not None:
            since_s = max(idle_s, now_s - last_s) // columns.step_s * columns.step_s
            for at_s in (since_s, now_s // columns.step_s * columns.step_s):
                if not columns.t or at_s > columns.t[-1]:
                    columns.t.append(at_s)
                    for values in columns.values.values():
                        values.append(0.0)
        return columns
