"""Outlook of jobs: their remaining work, and durations to send to sidecars; computed once a round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Final

from policies.common.remaining_time import left_s
from policies.common.service_levels import level
from quicksilver.common.messages import ContainerState, Expected, Report, Targets
from rm_proxy.attempt import frameworks
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.estimates.estimator import Expectation
from rm_proxy.job_classes.classes import TaskTime

TELL_RATIO: Final = 0.1
"""An estimate is sent only if it differs by more than this part from the one that the sidecar has."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """An application's outlook as another worker of the proxy reports it (rm_proxy/coordinator/workers)."""

    attained_s: float = 0.0
    remaining_s: float = 0.0
    idle_s: float = 0.0
    expected: dict[int, Expectation] = field(default_factory=dict)
    """By request priority."""


class JobOutlook:
    """A machine: expectations in, task-seconds and news for sidecars out.

    expects: returns the estimate of a task by application and request priority; None for an unknown application.
    attempts_of: the attempts of an application that live.
    """

    def __init__(
        self, expects: Callable[[str, int], Expectation | None], attempts_of: Callable[[str], Iterable[Attempt]]
    ) -> None:
        self._expects, self._attempts_of = expects, attempts_of
        self._expected: dict[tuple[str, int], Expectation | None] = {}
        self._left_s: dict[str, float] = {}
        self._attained_s: dict[str, float] = {}
        self._idle_times_s: dict[str, float] = {}
        self.elsewhere: dict[str, Outlook] = {}
        """Of the applications that other workers of the proxy serve."""

    def round(self) -> None:
        """Have everything computed anew at the next call."""
        self._expected.clear()
        self._left_s.clear()
        self._attained_s.clear()
        self._idle_times_s.clear()

    def job_remaining_s(self, app_id: str, now_s: float) -> float:
        """Return the task-seconds that an application has left (Eagle §3.4): of wanted, waiting and running tasks."""
        known = self._left_s.get(app_id)
        if known is None:
            known = sum(self._remaining_s(attempt, now_s) for attempt in self._attempts_of(app_id))
            known = self._left_s[app_id] = known or self.elsewhere.get(app_id, _NO_OUTLOOK).remaining_s
        return known

    def task_time(self, app_id: str) -> TaskTime | None:
        """Return the mean expected duration of the tasks that an application wants or runs; None without any."""
        tasks, total_s, learnt = 0, 0.0, False
        for attempt in self._attempts_of(app_id):
            stages = [(entry.key.priority, entry.demand) for entry in attempt.table.entries.values()]
            for priority, count in [*stages, *((live.priority, 1) for live in attempt.live)]:
                known = self._of(app_id, priority) if count else None
                if known is not None:
                    tasks, total_s, learnt = tasks + count, total_s + count * known.mean_s, learnt or known.known
        return TaskTime(total_s / tasks, learnt) if tasks else None

    def job_attained_s(self, app_id: str, now_s: float) -> float:
        """Return the service of an application over all nodes, in seconds of run time."""
        known = self._attained_s.get(app_id)
        if known is None:
            known = sum(attempt.live.attained_s(now_s) for attempt in self._attempts_of(app_id))
            known = self._attained_s[app_id] = known or self.elsewhere.get(app_id, _NO_OUTLOOK).attained_s
        return known

    def of_app(self, app_id: str, now_s: float) -> Outlook:
        """Return the outlook of an application for the other workers."""
        priorities: set[int] = set()
        for attempt in self._attempts_of(app_id):
            priorities.update(entry.key.priority for entry in attempt.table.entries.values())
            priorities.update(live.priority for live in attempt.live)
        known = {priority: expectation for priority in priorities if (expectation := self._of(app_id, priority))}
        return Outlook(
            self.job_attained_s(app_id, now_s), self.job_remaining_s(app_id, now_s), self._idle_s(app_id), known
        )

    def work_s(self, app_id: str, now_s: float) -> float:
        """Return the larger of what an application attained and has left."""
        return max(self.job_attained_s(app_id, now_s), self.job_remaining_s(app_id, now_s))

    def frees_s(self, report: Report) -> float:
        """Return when the first container of a node is expected to end, from now; .inf where none runs.

        A task that has run longer than expected is taken to run on as long as it is late. One that is overdue, or of
        unknown duration, is taken to run as long again as it ran: most that are old by then are long (the tails of
        Kairos, thesis §4.1). One that takes further tasks (Tez) outlives its task.
        """
        rest_s = [
            _rest_s(known, c.since_s) + self._idle_s(c.app_id)
            for c in report.containers
            if c.state is ContainerState.RUNNING and not c.am and (known := self._of(c.app_id, c.priority))
        ]
        return min(rest_s, default=inf)

    def news(
        self,
        targets: Targets,
        report: Report,
        now_s: float,
        slow_ratio: float = 1.0,
        sharing: Collection[str] = (),
        spares: Callable[[str, int], bool] = lambda app_id, cores: False,
    ) -> Targets:
        """Return `targets` with the work left of jobs that wait at the node, and durations that it should know.

        slow_ratio: how many times as long tasks take there as elsewhere; sharing: applications whose containers share
        the cores, by the service of their jobs; spares: whether containers of others give way first.
        """
        waiting: set[str] = set()
        differ: dict[tuple[str, int], Expectation] = {}
        expected = self._expected
        for c in report.containers:
            if c.am:
                continue
            if c.state is ContainerState.WAITING:
                waiting.add(c.app_id)
            key = c.app_id, c.priority
            known = expected[key] if key in expected else self._of(*key)
            if known is not None and abs(known.mean_s * slow_ratio - c.expected_s) > TELL_RATIO * c.expected_s:
                differ[key] = known.at(slow_ratio)
        jobs = self._jobs(sharing, spares, max(1, int(report.vcores)), now_s) if len(sharing) > 1 else None
        if not waiting and not differ and jobs is None:
            return targets
        news = [
            Expected(app_id=app_id, priority=priority, expected_s=known.mean_s, spread_s=known.spread_s)
            for (app_id, priority), known in differ.items()
        ]
        remaining_s = {app_id: round(self.job_remaining_s(app_id, now_s), 3) for app_id in waiting}
        return targets.model_copy(update={"job_remaining_s": remaining_s, "expected": news, **(jobs or {})})

    def _jobs(
        self, sharing: Collection[str], spares: Callable[[str, int], bool], cores: int, now_s: float
    ) -> dict[str, object] | None:
        """Return what a sidecar has to know of the jobs at its node; None while they are all of one level."""
        attained_s = {app_id: self.job_attained_s(app_id, now_s) for app_id in sharing}
        spared = [app_id for app_id in sharing if spares(app_id, cores)]
        if not spared and len({level(seconds) for seconds in attained_s.values()}) == 1:
            return None
        return {"job_attained_s": {app_id: round(s, 1) for app_id, s in attained_s.items()}, "spared": spared}

    def _of(self, app_id: str, priority: int) -> Expectation | None:
        key = app_id, priority
        if key in self._expected:
            return self._expected[key]
        elsewhere = self.elsewhere.get(app_id)
        expectation = elsewhere.expected.get(priority) if elsewhere is not None else self._expects(app_id, priority)
        self._expected[key] = expectation
        return expectation

    def _idle_s(self, app_id: str) -> float:
        known = self._idle_times_s.get(app_id)
        if known is None:
            apps = (attempt.app for attempt in self._attempts_of(app_id))
            elsewhere_s = self.elsewhere.get(app_id, _NO_OUTLOOK).idle_s
            known = max((frameworks.idle_s(app.type) for app in apps if app is not None), default=elsewhere_s)
            self._idle_times_s[app_id] = known
        return known

    def _remaining_s(self, attempt: Attempt, now_s: float) -> float:
        total_s = 0.0
        for entry in attempt.table.entries.values():
            known = self._of(attempt.app_id, entry.key.priority)
            total_s += entry.demand * known.mean_s if known is not None else 0.0
        for live in attempt.live:
            known = self._of(attempt.app_id, live.priority)
            if known is None:
                continue
            if live.started_s is None:
                total_s += known.mean_s
            else:
                total_s += left_s(known.mean_s, known.spread_s, now_s - live.started_s)
        return total_s


_NO_OUTLOOK: Final = Outlook()


def _rest_s(known: Expectation, ran_s: float) -> float:
    """Return how much longer a task runs that has run for a while."""
    if not known.known or ran_s > known.due_s:
        return max(known.mean_s - ran_s, ran_s)
    return max(left_s(known.mean_s, known.spread_s, ran_s), ran_s - known.mean_s)
