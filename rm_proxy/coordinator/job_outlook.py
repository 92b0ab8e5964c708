"""Outlook of jobs: their remaining work, and durations to send to sidecars; computed once a round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from policies.common.remaining_time import left_s
from policies.common.service_levels import level
from quicksilver.common.messages import ContainerState, Expected, Report, Targets
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.estimates.estimator import Expectation

TELL_RATIO: Final = 0.1
"""An estimate is sent only if it differs by more than this part from the one that the sidecar has."""


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

    def round(self) -> None:
        """Have everything computed anew at the next call."""
        self._expected.clear()
        self._left_s.clear()
        self._attained_s.clear()

    def job_remaining_s(self, app_id: str, now_s: float) -> float:
        """Return the task-seconds that an application has left (Eagle §3.4): of wanted, waiting and running tasks."""
        known = self._left_s.get(app_id)
        if known is None:
            attempts = self._attempts_of(app_id)
            known = self._left_s[app_id] = sum(self._remaining_s(attempt, now_s) for attempt in attempts)
        return known

    def job_attained_s(self, app_id: str, now_s: float) -> float:
        """Return the service of an application over all nodes, in seconds of run time."""
        known = self._attained_s.get(app_id)
        if known is None:
            attempts = self._attempts_of(app_id)
            known = self._attained_s[app_id] = sum(attempt.live.attained_s(now_s) for attempt in attempts)
        return known

    def work_s(self, app_id: str, now_s: float) -> float:
        """Return the larger of what an application attained and has left."""
        return max(self.job_attained_s(app_id, now_s), self.job_remaining_s(app_id, now_s))

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
        left = {app_id: round(self.job_remaining_s(app_id, now_s), 3) for app_id in waiting}
        return targets.model_copy(update={"job_remaining_s": left, "expected": news, **(jobs or {})})

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
        expectation = self._expected[key] = self._expects(app_id, priority)
        return expectation

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
