"""Zoe: whole applications wait for admission, with core and elastic components ("Flexible Scheduling of Distributed
Analytic Applications").

The cluster is one room of cores and memory, and grants are carried out at once, as in the paper's simulator (§4.1):
neither nodes nor the network delay count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from pydantic import Field

from quicksilver.simulator.clock import Clock
from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ApplicationJob, ClusterModel, JobOutcome, SimResult, SimulatedJob
from quicksilver.simulator.systems import SystemSettings
from quicksilver_lab.papers.algorithms.admission import NeverFitsError, ResearchAdmission, ResearchGrant, ResearchRoom
from quicksilver_lab.papers.algorithms.flexible import Flexible
from quicksilver_lab.papers.algorithms.malleable import Malleable
from quicksilver_lab.papers.algorithms.preemptive import Preemptive
from quicksilver_lab.papers.algorithms.request_order import Order
from quicksilver_lab.papers.algorithms.rigid import Rigid
from quicksilver_lab.papers.zoe.model import Work, of_job, request_of, room_of
from quicksilver_lab.papers.zoe.service import InService, Means

_SAMPLES = 4096


class ZoeSettings(SystemSettings):
    """Settings of zoe."""

    discipline: Literal["rigid", "malleable", "flexible", "preemptive"] = "flexible"
    """Rigid: all components or none; malleable: what is free, first fit; flexible: elastic ones make way for cores
    (§3.2); preemptive: flexible, and urgent arrivals do not wait for a departure (§3.3)."""
    order: Literal["fifo", "sjf", "srpt", "hrrn"] = "fifo"
    """Who is admitted first (§4.1, §4.6)."""
    size: Literal["1d", "2d", "3d"] = "1d"
    """What an application's size is: its runtime, x components, x cores x memory of each (Table 2)."""
    work: Work = "two_coordinate"
    """two_coordinate: T = W / (C - 2 + x) (§2.2); all_work: every component does work."""
    interactive_priority: int = Field(0, ge=0)
    """Added to the priority of interactive applications (§4.5: set by hand); 0: the order alone decides."""
    job_core: int = Field(1, ge=1)
    """Tasks of a job that are core components, where the trace knows no applications (own)."""


@dataclass(slots=True)
class _Samples:
    """(at_s, share) at most some thousand times: when there are too many, every second goes, and fewer come."""

    taken: list[tuple[float, float]]
    every: int = 1
    seen: int = 0

    def add(self, at_s: float, share: float) -> None:
        self.seen += 1
        if self.seen % self.every == 0:
            self.taken.append((at_s, share))
            if len(self.taken) >= 2 * _SAMPLES:
                del self.taken[::2]
                self.every *= 2


class _Run:
    def __init__(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: ZoeSettings) -> None:
        self.jobs: Iterator[SimulatedJob] = iter(jobs)
        self.settings = settings
        self.room = room_of(cluster)
        self.clock = Clock()
        self.admission = self._admission(settings, self.room)
        self.apps: dict[int, ApplicationJob] = {}
        """Who waits."""
        self.loads: dict[int, tuple[int, float]] = {}
        """Tasks and work of those in the system, as the trace has them."""
        self.running: dict[int, InService] = {}
        self.used_millicores = 0
        self.used_mb = 0
        self.means = Means(self.room.millicores, self.room.memory_mb)
        self.samples = _Samples([])
        self.outcomes: list[JobOutcome] = []
        self.counts = dict.fromkeys(("tasks", "started", "ended", "lost", "doubled", "grants", "preemptions"), 0)

    def _admission(self, settings: ZoeSettings, room: ResearchRoom) -> ResearchAdmission:
        order = Order(settings.order, settings.size)
        if settings.discipline == "preemptive":
            return Preemptive(room, order, self._remaining_ratio)
        plain: dict[str, type[Rigid | Malleable | Flexible]] = {
            "rigid": Rigid,
            "malleable": Malleable,
            "flexible": Flexible,
        }
        return plain[settings.discipline](room, order)

    def _remaining_ratio(self, number: int) -> float:
        entry = self.running.get(number)
        return entry.left_at(self.clock.now_s) / (entry.app.runtime_s * entry.all_workers) if entry else 1.0

    def go(self) -> None:
        first = next(self.jobs, None)
        if first is not None:
            self.clock.at(first.arrives_s, self._arrive, first)
        self.clock.run()

    def _arrive(self, job: SimulatedJob) -> None:
        """Handle all jobs that arrive now, and ask for the next arrival."""
        now_s, together = self.clock.now_s, []
        self._account(arrival=True)
        following: SimulatedJob | None = None
        for newcomer in chain((job,), self.jobs):
            if newcomer.arrives_s != now_s:
                following = newcomer
                break
            together.append(self._application(newcomer))
        try:
            changes = self.admission.arrive(
                [request_of(a, self.settings.interactive_priority) for a in together], now_s
            )
        except (NeverFitsError, ValueError) as error:
            raise SimulatorError(f"zoe, {self.settings.discipline}: {error}") from error
        self._carry_out(changes)
        if following is not None:
            if following.arrives_s < now_s:
                raise SimulatorError(f"job {following.number} arrives before the one ahead of it: sort the trace")
            self.clock.at(following.arrives_s, self._arrive, following)

    def _application(self, job: SimulatedJob) -> ApplicationJob:
        if job.number in self.loads:
            raise SimulatorError(f"job {job.number} is twice in the trace: numbers must be its own")
        app = job if isinstance(job, ApplicationJob) else of_job(job, self.settings.job_core, self.room)
        self.apps[app.number] = app
        self.loads[job.number] = len(job.durations_s), job.work_s
        self.counts["tasks"] += len(job.durations_s)
        return app

    def _carry_out(self, changes: list[ResearchGrant]) -> None:
        now_s, work = self.clock.now_s, self.settings.work
        for grant in changes:
            entry = self.running.get(grant.id)
            if entry is None:
                app = self.apps.pop(grant.id)
                entry = self.running[grant.id] = InService.begin(app, work, now_s)
                self._use(entry, app.core)
                self.counts["started"] += self.loads[grant.id][0]
            more = grant.elastic - entry.elastic
            self.counts["grants" if more > 0 else "preemptions"] += abs(more)
            self._use(entry, more)
            done_s = entry.grant(grant.elastic, work, now_s)
            self.clock.at(done_s, self._end, entry, entry.version)
        self.samples.add(now_s, self.used_millicores / self.room.millicores)

    def _use(self, entry: InService, components: int) -> None:
        self.used_millicores += components * max(1, round(entry.app.cores * 1000))
        self.used_mb += components * entry.app.memory_mb

    def _end(self, entry: InService, version: int) -> None:
        if version != entry.version:
            return
        app, now_s = entry.app, self.clock.now_s
        self._account(arrival=False)
        del self.running[app.number]
        self._use(entry, -app.core - entry.elastic)
        tasks, work_s = self.loads.pop(app.number)
        self.counts["ended"] += tasks
        self.outcomes.append(
            JobOutcome(app.number, app.arrives_s, now_s, tasks, work_s, app.klass, entry.begun_s - app.arrives_s)
        )
        self._carry_out(self.admission.depart(app.number, now_s))

    def _account(self, arrival: bool) -> None:
        waiting, running = self.admission.waiting, len(self.running)
        self.means.pass_by(self.clock.now_s, self.used_millicores, self.used_mb, waiting, running)
        if arrival:
            self.means.mark()


class Zoe:
    """Zoe: whole applications are admitted, and elastic components make way for the core of the next."""

    name = "zoe"
    about = "Zoe: whole applications wait for admission, with core and elastic components."
    Settings = ZoeSettings

    def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: ZoeSettings, seed: int) -> SimResult:
        """Run all to their end; nothing is left to chance. Raises SimulatorError for what can never run."""
        run = _Run(jobs, cluster, settings)
        run.go()
        counts = run.counts | {"events": run.clock.events}
        return SimResult(self.name, seed, run.outcomes, run.samples.taken, counts, run.means.figures())


SYSTEM = Zoe()
