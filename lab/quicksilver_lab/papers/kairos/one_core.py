"""A node with one core, by Algorithm 2 of Kairos (thesis §4.3.2): decides as `sidecar.cpu_sharing.las` does, only
faster.

`sidecar.cpu_sharing.las` is where the algorithm is, for containers of any size that are resized by a shell. Of that
this keeps what is left when each task takes the one core and resizes take no time; a test holds one against the other
(lab/tests/papers/systems/test_kairos_slots.py). Turns that change nothing outside the node are made up for
when it is next looked at.
"""

from __future__ import annotations

from math import inf, sqrt

from quicksilver_lab.papers.kairos.task import KairosTask
from sidecar.cpu_sharing.events import LasRules


class OneCore:
    """The tasks of one node. `next_s` is when its task is over, or a time before which none can be."""

    __slots__ = (
        "_at_s",
        "_ending",
        "_idle",
        "_protect_s",
        "_quantum_s",
        "_run",
        "_starve_s",
        "next_s",
        "preemptions",
        "version",
    )

    def __init__(self, rules: LasRules) -> None:
        """Begin with nothing; of `rules` the quantum and what keeps tasks from starving count."""
        self._quantum_s = rules.quantum_s
        self._starve_s = rules.starve_quanta * rules.quantum_s
        self._protect_s = rules.protect_quanta * rules.quantum_s
        self._run: KairosTask | None = None
        self._idle: list[KairosTask] = []
        self._at_s = 0.0
        """The time that all figures are of."""
        self._ending = False
        """Whether the task that runs is over at `next_s`."""
        self.next_s = inf
        self.version = 0
        self.preemptions = 0

    def arrive(self, task: KairosTask, now_s: float) -> None:
        """Run a newcomer at once, unless who runs is protected (lines 2 to 18).

        One that came during a protection, and has not run since, goes before one that comes later.
        """
        self._advance(now_s)
        run = self._run
        if run is None:
            self._start(task, now_s)
        elif now_s < run.protected_until_s:
            run.began_s += (now_s - run.began_s) // self._quantum_s * self._quantum_s
            task.idle_since_s = now_s
            self._idle.append(task)
        else:
            self.preemptions += 1
            run.idle_since_s = now_s
            new = [waiting for waiting in self._idle if waiting.started_s < 0]
            if new:
                first = min(new, key=lambda waiting: (waiting.idle_since_s, waiting.number))
                self._idle.remove(first)
                task.idle_since_s = now_s
                self._idle.append(task)
                task = first
            self._idle.append(run)
            self._start(task, now_s)
        self._look_ahead()

    def wake(self, now_s: float) -> KairosTask | None:
        """Come to `next_s`: end the task that is over, and run who comes next (lines 19 to 29)."""
        if not self._ending:
            self._advance(now_s)
            self._look_ahead()
            return None
        over = self._run
        self._at_s = now_s
        self._run = None
        if self._idle:
            heir = self._starving(now_s)
            if heir is not None:
                heir.protected_until_s = now_s + self._protect_s
            else:
                heir = self._least()
            self._idle.remove(heir)
            self._start(heir, now_s)
        self._look_ahead()
        return over

    def spread_s(self, now_s: float) -> float:
        """Return the standard deviation of attained service, in seconds."""
        self._advance(now_s)
        if self._run is None or not self._idle:
            return 0.0
        if len(self._idle) == 1:
            return abs(self._run.attained_s - self._idle[0].attained_s) / 2
        ahead_s = [task.attained_s - self._run.attained_s for task in self._idle]
        tasks = len(ahead_s) + 1
        return sqrt(tasks * sum(gap_s * gap_s for gap_s in ahead_s) - sum(ahead_s) ** 2) / tasks

    def attained_s(self, now_s: float) -> list[float]:
        """Return what each task has attained."""
        self._advance(now_s)
        tasks = self._idle if self._run is None else [self._run, *self._idle]
        return [task.attained_s for task in tasks]

    def _start(self, task: KairosTask, now_s: float) -> None:
        self._run = task
        task.began_s = now_s
        if task.started_s < 0:
            task.started_s = now_s

    def _advance(self, now_s: float) -> None:
        """Let time pass, with all turns until `now_s`; nothing is over before, and what is over then has no turn."""
        run, at_s = self._run, self._at_s
        self._at_s = now_s
        if run is None:
            return
        if self._idle:
            turn_s = self._turn_s(run, at_s)
            while turn_s <= now_s:
                if turn_s == now_s and run.attained_s + (now_s - at_s) >= run.length_s:
                    break
                run.attained_s += turn_s - at_s
                at_s = turn_s
                run = self._turn(run, at_s)
                turn_s = self._turn_s(run, at_s)
        run.attained_s += now_s - at_s

    def _turn_s(self, run: KairosTask, at_s: float) -> float:
        """Return when something may change by time alone."""
        first_s = run.began_s + self._quantum_s
        if at_s < run.protected_until_s < first_s:
            first_s = run.protected_until_s
        starve_s = self._starve_s
        for task in self._idle:
            starves_s = task.idle_since_s + starve_s
            if at_s < starves_s < first_s:
                first_s = starves_s
        return first_s

    def _turn(self, run: KairosTask, now_s: float) -> KairosTask:
        """Return who runs from now on (lines 30 to 44, and who starved first)."""
        over = now_s >= run.began_s + self._quantum_s
        if now_s < run.protected_until_s:
            if over:
                run.began_s = now_s
            return run
        heir = self._starving(now_s)
        if heir is not None:
            heir.protected_until_s = now_s + self._protect_s
        elif over or run.began_s < run.protected_until_s:
            heir = self._least()
            if heir.attained_s > run.attained_s:
                run.began_s = now_s
                return run
        else:
            return run
        run.idle_since_s = now_s
        idle = self._idle
        idle[idle.index(heir)] = run
        self.preemptions += 1
        self._start(heir, now_s)
        return heir

    def _starving(self, now_s: float) -> KairosTask | None:
        """Return who stood still for too long, the longest first."""
        candidate = None
        for task in self._idle:
            if now_s >= task.idle_since_s + self._starve_s and (
                candidate is None or (task.idle_since_s, task.number) < (candidate.idle_since_s, candidate.number)
            ):
                candidate = task
        return candidate

    def _least(self) -> KairosTask:
        """Return who stands still and has attained least."""
        least = self._idle[0]
        for task in self._idle:
            if task.attained_s < least.attained_s or (
                task.attained_s == least.attained_s and task.number < least.number
            ):
                least = task
        return least

    def _look_ahead(self) -> None:
        """Find `next_s`: who runs is over by then, or might be; who stands still has to wait for a turn first."""
        self.version += 1
        run = self._run
        if run is None:
            self.next_s, self._ending = inf, False
            return
        over_s = self._at_s + (run.length_s - run.attained_s)
        if self._idle:
            turn_s = self._turn_s(run, self._at_s)
            if over_s > turn_s:
                soonest_s = turn_s + min(task.length_s - task.attained_s for task in self._idle)
                self.next_s, self._ending = min(over_s, soonest_s), False
                return
        self.next_s, self._ending = over_s, True
