"""Estimates how long tasks run: from completed siblings, earlier jobs of the same name, hints, and running tasks.

Mercury §4.1: estimates come with the job and are refined at run time from containers that completed; Apollo §3.3: from
tasks of the same stage. Times are the sidecars' (start to end), since YARN's history counts the wait in a node's queue
as run time. Each level is blended with the one behind it, which counts as `prior_weight` tasks, so that one odd sibling
does not decide: a stage (application and request priority) with the job name, that with tags or rules. The default
is no knowledge and has no weight.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

from policies.common.remaining_time import OVERRUN_MIN_S, left_s
from policies.config.policy_set import Policies
from policies.config.schema import Estimate
from policies.model import AppView
from policies.value_types import changer, replace, value_type
from quicksilver.common.messages import ContainerEvent, ContainerReport, ContainerState
from rm_proxy.domain.records import DurationRecord
from rm_proxy.estimates.duration_tags import tag_hints
from rm_proxy.estimates.user_honesty import LEARN_TASKS, Doubt, UserHonesty

K = TypeVar("K")
V = TypeVar("V")
Name = tuple[str, str, int]
"""Application type, job name without its dates and numbers, request priority."""

MAX_KEYS: Final = 20_000
"""Stages and job names that are remembered; the ones used least recently are forgotten."""
MAX_LOST: Final = 20_000
"""Killed containers that are remembered for the re-runs of their tasks."""
DUE_SPREADS: Final = 3.0
"""A running task that outlived its estimate by this many standard deviations is overdue (own)."""
DUE_RATIO: Final = 2.0
"""The same in estimates, where no deviation is known (own)."""
MIN_S: Final = 0.01
"""No task is expected to take less."""
_NAME_CHARS: Final = 200
_DATED = re.compile(r"\d{4}([-_./])\d{1,2}\1\d{1,2}|\d{6,}")
_RUNNING: Final = (ContainerState.RUNNING, ContainerState.SHRUNK)


class EstimateSource(StrEnum):
    """Source of an estimate: the level with the most weight."""

    TASK = "task"
    """The stage, and how long the task ran before it was killed."""
    STAGE = "stage"
    NAME = "name"
    """Earlier jobs of that name."""
    TAG = "tag"
    DOUBTED_TAG = "doubted tag"
    """A tag of a user whose tags were wrong before, corrected."""
    RULE = "rule"
    DEFAULT = "default"


@value_type
@dataclass(frozen=True, slots=True)
class Expectation:
    """How long a task is expected to run, in seconds."""

    mean_s: float
    spread_s: float = 0.0
    """Standard deviation; 0 when not known."""
    source: EstimateSource = EstimateSource.DEFAULT
    count: int = 0
    """Completed tasks that it rests on, at its level."""
    due_s: float = field(default=math.inf, compare=False)
    """Age from which a running task is overdue: the estimate was wrong, and its duration counts as unknown."""
    usual_s: float = field(default=math.inf, compare=False)
    """The mean without running tasks, so that a straggler does not raise its own limit; infinite if it is not known."""

    @property
    def known(self) -> bool:
        """Whether it is learnt or given; else it is the default, which says nothing of this task."""
        return self.source is not EstimateSource.DEFAULT

    def at(self, slow_ratio: float) -> Expectation:
        """Return the same for a node where tasks take `slow_ratio` times as long as elsewhere."""
        if slow_ratio == 1.0:
            return self
        return replace(
            self,
            mean_s=self.mean_s * slow_ratio,
            spread_s=self.spread_s * slow_ratio,
            due_s=self.due_s * slow_ratio,
            usual_s=self.usual_s * slow_ratio,
        )


_with_limits: Final = changer(Expectation, "due_s", "usual_s")


@dataclass(slots=True)
class Durations:
    """Running mean and spread of durations in seconds (Welford)."""

    count: int = 0
    mean_s: float = 0.0
    m2: float = 0.0

    def add(self, seconds: float, limit: float = math.inf) -> None:
        """Handle one duration; earlier ones count as `limit` tasks at most, so that they fade."""
        if self.count >= limit:
            self.m2 *= (limit - 1) / self.count
            self.count = int(limit) - 1
        self.count += 1
        delta = seconds - self.mean_s
        self.mean_s += delta / self.count
        self.m2 += delta * (seconds - self.mean_s)

    def merge(self, durations: Durations) -> None:
        """Handle all of another's."""
        count = self.count + durations.count
        if count:
            delta = durations.mean_s - self.mean_s
            self.m2 += durations.m2 + delta * delta * self.count * durations.count / count
            self.mean_s += delta * durations.count / count
            self.count = count

    @property
    def spread_s(self) -> float:
        """Standard deviation; 0 with fewer than two durations."""
        return math.sqrt(self.m2 / (self.count - 1)) if self.count > 1 else 0.0


@dataclass(slots=True)
class TaskStage:
    """Statistics of the tasks of one application and request priority."""

    earlier: Durations
    """Statistics of the job's name, from the time when the stage's own tasks began to outweigh them."""
    done: Durations = field(default_factory=Durations)
    young: int = 0
    """Running ones that are younger than the stage's estimate."""
    over: int = 0
    """Running ones that outlived it; the sums of their ages, and of the squares of these, in ms and ms²."""
    over_ms: int = 0
    """Of overdue ones twice their ages: what is of unknown duration is expected to run as long again."""
    over_ms2: int = 0


def worked_s(event: ContainerEvent) -> float | None:
    """Return the run time of a container in seconds; None when it is not known.

    Of one that was shrunk meanwhile it is the CPU time that it was given, since it stood still for a part of the rest.
    """
    if event.ran_s is None:
        return None
    return _worked_s(event.ran_s, event.attained_s, event.times_shrunk)


def _worked_s(ran_s: float, attained_s: float | None, times_shrunk: int) -> float:
    if times_shrunk and attained_s is not None:
        return max(0.0, min(attained_s, ran_s))
    return max(0.0, ran_s)


@value_type
@dataclass(frozen=True, slots=True)
class _Known:
    """Estimate of a stage without its running tasks, and its weight in tasks."""

    stage: TaskStage | None
    """None before it began."""
    expects: Expectation
    weight: float


class Estimator:
    """A machine: ends, kills and ages of containers in, expectations out; its memory is bounded."""

    def __init__(self) -> None:
        self._stages: OrderedDict[tuple[str, int], TaskStage] = OrderedDict()
        self._names: OrderedDict[Name, Durations] = OrderedDict()
        self._named: OrderedDict[tuple[str, int], float] = OrderedDict()
        """By stage: durations that requests of it named, in seconds."""
        self._lost: OrderedDict[str, float] = OrderedDict()
        """By lost container: how long its task ran at most before, in seconds; only where it ran."""
        self._changed: dict[Name, None] = {}
        self._running: dict[str, tuple[Sequence[TaskStage], Sequence[tuple[TaskStage, int]]]] = {}
        """By node: stages of running containers that are young, and of those that outlived it with ages (ms)."""
        self.honesty = UserHonesty()
        self._known: dict[tuple[str, int], _Known] = {}
        """Estimates without running tasks, computed once a round where nothing new came."""
        self._policies: Policies | None = None
        """Those that it was computed by."""

    # What happens

    def observe(self, app: AppView, priority: int, ran_s: float, estimate: Estimate) -> None:
        """Handle the run time of a container, in seconds."""
        if ran_s < 0 or not math.isfinite(ran_s):
            raise ValueError(f"a container cannot have run for {ran_s} s")
        stage, ran_s = self._stage(app, priority), max(MIN_S, ran_s)
        stage.done.add(ran_s)
        if stage.done.count == LEARN_TASKS and (named_s := self._tagged_s(app, priority, estimate)) is not None:
            self.honesty.observe(app.user, named_s, stage.done.mean_s)
        self._known.pop((app.id, priority), None)
        name = _name(app, priority)
        _entry(self._names, name, Durations()).add(ran_s, estimate.history_tasks)
        self._changed[name] = None
        if len(self._changed) > MAX_KEYS:
            del self._changed[next(iter(self._changed))]

    def named(self, app_id: str, hints: Mapping[int, float]) -> None:
        """Handle durations (s) that requests name, by priority: they count before the tags of the application."""
        for priority, named_s in hints.items():
            _entry(self._named, (app_id, priority), named_s)
            self._named[app_id, priority] = named_s
            self._known.pop((app_id, priority), None)

    def lost(self, container_id: str, ran_s: float, follows: str = "") -> None:
        """Note that a container was lost after `ran_s` seconds (0: shed); its task takes longer when it runs again.

        follows: the container of its task that was lost before.
        """
        ran_s = max(ran_s, self._lost.get(follows, 0.0))
        if ran_s > 0:
            _entry(self._lost, container_id, ran_s, MAX_LOST)

    def running(
        self,
        node_id: str,
        containers: Iterable[ContainerReport],
        apps: Mapping[str, AppView],
        policies: Policies,
        slow_ratio: float = 1.0,
    ) -> list[float]:
        """Handle the running tasks of a node; return the ages of those beyond their estimates, as parts of these.

        Each counts as a task that takes the estimate of its stage, or its age where it outlived that, or twice its age
        where it is overdue, divided by `slow_ratio`: how many times as long tasks take there as elsewhere. The returned
        ages are not divided.
        """
        outlived: list[float] = []
        self.forget_node(node_id)
        young: list[TaskStage] = []
        over: list[tuple[TaskStage, int]] = []
        for c in containers:
            if c.state not in _RUNNING or c.am or (app := apps.get(c.app_id)) is None:
                continue
            known = self._weighed(app, c.priority, policies)
            stage = known.stage
            if stage is None:
                stage = self._stage(app, c.priority)
            age_s = _worked_s(c.since_s, c.attained_s, c.times_shrunk) if c.times_shrunk else c.since_s
            if age_s > known.expects.mean_s and known.expects.source is not EstimateSource.DEFAULT:
                outlived.append(age_s / known.expects.mean_s)
            age_s /= slow_ratio
            if age_s > known.expects.mean_s:
                ms = int(age_s * (2000 if age_s > known.expects.due_s else 1000))
                stage.over += 1
                stage.over_ms += ms
                stage.over_ms2 += ms * ms
                over.append((stage, ms))
            else:
                stage.young += 1
                young.append(stage)
        if young or over:
            self._running[node_id] = young, over
        return outlived

    def forget_node(self, node_id: str) -> None:
        """Forget the running tasks of a node."""
        young, over = self._running.pop(node_id, ((), ()))
        for stage in young:
            stage.young -= 1
        for stage, ms in over:
            stage.over -= 1
            stage.over_ms -= ms
            stage.over_ms2 -= ms * ms

    def round(self) -> None:
        """Do the work of each second: handle new durations of job names, and new settings."""
        self._known.clear()

    # What is expected

    def expected(self, app: AppView, priority: int, policies: Policies, follows: str = "") -> Expectation:
        """Return the estimate of a task; follows: its container that was shed or killed before, "" for none."""
        known = self._weighed(app, priority, policies)
        expects = known.expects
        if known.stage is not None and known.stage.over:
            expects = _outlived(known.stage, expects, known.weight)
        ran_s = self._lost.get(follows)
        if ran_s is None:
            return expects
        return replace(
            expects, mean_s=ran_s + left_s(expects.mean_s, expects.spread_s, ran_s), source=EstimateSource.TASK
        )

    def _weighed(self, app: AppView, priority: int, policies: Policies) -> _Known:
        """Return the estimate of a stage without its running tasks."""
        if policies is not self._policies:
            self._known.clear()
            self._policies = policies
        key = app.id, priority
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._compute(app, priority, policies)
        return known

    def _compute(self, app: AppView, priority: int, policies: Policies) -> _Known:
        stage = self._stages.get((app.id, priority))
        earlier = stage.earlier if stage is not None else self._names.get(_name(app, priority))
        estimate = policies.estimate(app)
        prior, weight = self._guess(app, priority, policies, estimate)
        if earlier is not None and earlier.count:
            prior, weight = _blend(earlier, prior, weight, EstimateSource.NAME)
            weight = min(weight, estimate.prior_weight)
        if stage is not None and stage.done.count:
            prior, weight = _blend(stage.done, prior, weight, EstimateSource.STAGE)
        usual_s = prior.mean_s if prior.known else math.inf
        return _Known(stage, _with_limits(prior, _due_s(prior), usual_s), weight)

    def _guess(self, app: AppView, priority: int, policies: Policies, estimate: Estimate) -> tuple[Expectation, float]:
        """Return the estimate of tags, rules or the default, and its weight in tasks."""
        named_s = self._tagged_s(app, priority, estimate)
        if named_s is not None:
            doubt = self.honesty.of(app.user) if estimate.doubt_tags else Doubt()
            source = EstimateSource.TAG if doubt.times == 1.0 else EstimateSource.DOUBTED_TAG
            return Expectation(named_s * doubt.times, source=source), estimate.prior_weight * doubt.trust_ratio
        ruled_s = policies.ruled_s(app, priority)
        if ruled_s is not None:
            return Expectation(ruled_s, source=EstimateSource.RULE), estimate.prior_weight
        return Expectation(estimate.default_s), 0.0

    def _tagged_s(self, app: AppView, priority: int, estimate: Estimate) -> float | None:
        """Return the duration that requests, or the application, name in tags; None without one."""
        if not estimate.tags:
            return None
        named_s = self._named.get((app.id, priority))
        return named_s if named_s is not None or not app.tags else tag_hints(app.tags).of(priority)

    # What is kept

    def changed(self, limit: int, now_s: float) -> list[DurationRecord]:
        """Return job names with new durations, up to `limit`, those that have waited longest first; and forget it."""
        taken = list(self._changed)[:limit]
        records = []
        for name in taken:
            del self._changed[name]
            known = self._names.get(name)
            if known is not None:
                records.append(DurationRecord(*name, known.count, known.mean_s, known.m2, now_s))
        return records

    def restore(self, records: Iterable[DurationRecord]) -> None:
        """Handle what was kept, the latest first, beside what was observed since the start."""
        self._known.clear()
        for record in records:
            durations = Durations(record.count, record.mean_s, record.m2)
            if record.count < 1 or not (MIN_S <= record.mean_s < math.inf and 0 <= record.m2 < math.inf):
                continue
            name = record.app_type, record.app_name, record.priority
            known = self._names.get(name)
            if known is not None:
                known.merge(durations)
            elif len(self._names) < MAX_KEYS:
                self._names[name] = durations
                self._names.move_to_end(name, last=False)

    def _stage(self, app: AppView, priority: int) -> TaskStage:
        key = app.id, priority
        known = self._stages.get(key)
        if known is not None:
            self._stages.move_to_end(key)
            return known
        name = self._names.get(_name(app, priority))
        earlier = replace(name) if name is not None else Durations()
        self._known.pop(key, None)
        return _entry(self._stages, key, TaskStage(earlier))


def _blend(known: Durations, prior: Expectation, weight: float, source: EstimateSource) -> tuple[Expectation, float]:
    """Blend the measured durations with the previous estimate; return the result and its weight in tasks."""
    total = known.count + weight
    mean_s = (known.count * known.mean_s + weight * prior.mean_s) / total
    within = known.count * known.spread_s**2 + weight * prior.spread_s**2
    between = known.count * (known.mean_s - mean_s) ** 2 + weight * (prior.mean_s - mean_s) ** 2
    return Expectation(mean_s, math.sqrt((within + between) / total), source, known.count), total


def _due_s(known: Expectation) -> float:
    """Return the age from which a task is overdue, infinite where nothing is known of it."""
    if not known.known:
        return math.inf
    if not known.spread_s:
        return known.mean_s * DUE_RATIO
    return known.mean_s + max(OVERRUN_MIN_S, DUE_SPREADS * known.spread_s)


def _outlived(stage: TaskStage, base: Expectation, weight: float) -> Expectation:
    """Return the estimate of a stage with its running tasks: as if those that outlived it ended now, or overdue ones
    after as long again.
    """
    over = Durations(stage.over, stage.over_ms / stage.over / 1000)
    variance = stage.over_ms2 / 1e6 / stage.over - over.mean_s**2
    over.m2 = max(0.0, variance) * (stage.over - 1)
    return replace(
        _blend(over, base, weight + stage.young, EstimateSource.STAGE)[0],
        count=base.count if base.source is EstimateSource.STAGE else 0,
        due_s=base.due_s,
        usual_s=base.usual_s,
    )


def _name(app: AppView, priority: int) -> Name:
    """Return the key of a job name, without parts that differ from day to day (dates, long numbers)."""
    return app.type, _DATED.sub("#", app.name[:_NAME_CHARS]), priority


def _entry(known: OrderedDict[K, V], key: K, new: V, limit: int | None = None) -> V:
    entry = known.setdefault(key, new)
    known.move_to_end(key)
    if len(known) > (MAX_KEYS if limit is None else limit):
        known.popitem(last=False)
    return entry
