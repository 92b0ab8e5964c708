"""The production proxy and sidecars as Mercury (ATC '15), as Kairos, and with Hadoop's own opportunistic policies.

Every message between masters, proxy, ResourceManager and sidecars is made and read, by the machines of the product;
see `quicksilver.simulator.world.production`. What is chosen is the section `policies` of quicksilver.yaml.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from math import inf
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo

from pydantic import Field

from policies.config.policy_set import Policies
from policies.config.presets import DEFAULT, PRESETS
from policies.config.schema import full_queue
from policies.config.windows import Hours
from policies.errors import SettingsMistakesError
from policies.model import Resources
from quicksilver.simulator.errors import SimulatorError
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver.simulator.systems import SystemSettings
from quicksilver.simulator.tally import SAMPLE_S
from quicksilver.simulator.world.outcome import outcome
from quicksilver.simulator.world.production import World
from quicksilver.simulator.world.setup import EPOCH_S, Setup
from quicksilver.simulator.world.work import Task
from quicksilver.simulator.world.work import WorldJob as Work

_PLENTY_MB: Final = 1 << 30
"""Of a node, where memory is not counted."""

MERCURY: Final[Mapping[str, Any]] = PRESETS["mercury"].section
"""Mercury §4: top-k by waiting time, shedding beyond mean + c sigma, the earlier job first; all of it queueable."""

OPPORTUNISTIC: Final[Mapping[str, Any]] = PRESETS["opportunistic"].section
"""Hadoop 3, all containers opportunistic: one of the ten shortest queues, first come first served, the newest killed.
What was killed or shed is asked for as opportunistic again."""

KAIROS: Final[Mapping[str, Any]] = PRESETS["kairos"].section
"""Kairos on its test bed (thesis §4.5.2): W = 50 s, Q = 4; the starvation counter is that of §4.6."""


QUICKSILVER: Final[Mapping[str, Any]] = {"preset": DEFAULT}
"""What is in force after an installation, with an empty section `policies:`."""


class Production(SystemSettings):
    """Settings of the production machines under the virtual clock."""

    named_by_policies: ClassVar[bool] = True
    policies: dict[str, Any] = Field(default_factory=lambda: dict(MERCURY))
    """The section `policies` of quicksilver.yaml; default: Mercury's (§4)."""
    max_jobs: int = Field(0, ge=0)
    """Jobs that run at once, later ones wait before they ask for anything (Mercury §7.2.1 has 150); 0: no limit."""
    node_beat_s: float = Field(3.0, gt=0)
    """Between heartbeats of a NodeManager (Mercury §7.1)."""
    master_beat_s: float = Field(1.0, gt=0)
    """Between heartbeats of an application master."""
    report_s: float = Field(2.0, gt=0)
    """Between reports of a sidecar, as its own setting has it; a run costs time by their number."""
    start_s: float = Field(0.1, ge=0)
    """From a start to the task's begin: the NodeManager and the process."""
    off_switch: int = Field(1, ge=1)
    """Guaranteed containers without locality that a node is given in one heartbeat."""
    end_beats: bool = False
    """Whether a NodeManager heartbeats as well when a container has ended: Hadoop 3 does, Mercury's 2.4.1 did not."""
    launch_s: float = Field(0.0, ge=0)
    """From a container's process to its first task's begin (localization, the JVM); the sidecar takes it for work."""
    reuse_s: float | None = Field(None, ge=0)
    """From a task's end to the next one's begin in the same container, as Tez reuses them; default: one for each."""
    master_start_s: float = Field(0.0, ge=0)
    """From a job's turn to its master's first heartbeat: the master's own container and its start."""
    slow_start_ratio: float = Field(1.0, ge=0, le=1)
    """Share of a stage's tasks that have ended when the next stage is asked for, as in `yarn_fifo`: containers of the
    next stage hold their places until all have ended; 1: they come after that."""
    master_cores: int = Field(0, ge=0)
    """Cores that each job's master holds, guaranteed, until the job is over; 0: it runs elsewhere. A job whose master
    finds no room waits."""
    master_memory_mb: int = Field(0, ge=0)
    """Memory that it holds besides, where `--memory-mb` says how much a node has."""
    counted: bool = True
    """Whether placements are counted at once; false: many schedulers know the nodes by reports alone (Mercury §6.3)."""
    wrong_nodes: float = Field(0.0, ge=0, le=1)
    """Share of the nodes that tell too short waits (the stragglers of Mercury §7.2.3)."""
    wrong_times: float = Field(1.0, ge=1)
    """How much longer one waits there than they tell."""
    slow_nodes: float = Field(0.0, ge=0, le=1)
    """Share of the nodes on which tasks take longer."""
    slow_times: float = Field(1.0, ge=1)
    """How much longer."""
    corrected: bool = True
    """Whether estimates learn from tasks that ended."""
    eager: bool = False
    """Whether heartbeats and reports that can change nothing are done too; slow, and the results are the same."""
    begins: str = "1970-01-05T00:00"
    """Local time at the begin of the trace, for `windows` of the policies; by default midnight before a Monday."""
    app_type: str = "YARN"
    """YARN's application type of all jobs, which `routes` look at."""
    sample_s: float = Field(SAMPLE_S, gt=0)
    """Between samples of how many slots are busy."""


class Hadoop(Production):
    """Settings of Hadoop's own opportunistic containers, by the production machines."""

    takes_file: ClassVar[bool] = False
    policies: dict[str, Any] = Field(default_factory=lambda: dict(OPPORTUNISTIC))
    """The section `policies` of quicksilver.yaml; default: what Hadoop 3.4 does."""
    node_beat_s: float = Field(1.0, gt=0)
    """Between heartbeats of a NodeManager (Hadoop's default)."""
    end_beats: bool = True
    """Whether a NodeManager heartbeats as well when a container has ended, as Hadoop 3.4's does."""


class Quicksilver(Production):
    """Settings of the product on stock YARN."""

    policies: dict[str, Any] = Field(default_factory=lambda: dict(QUICKSILVER))
    """The section `policies` of quicksilver.yaml, which `--config` gives; default: the preset `default`."""
    app_type: str = "MAPREDUCE"
    """YARN's application type of all jobs, which `routes` look at."""
    node_beat_s: float = Field(1.0, gt=0)
    """Between heartbeats of a NodeManager (Hadoop's default)."""
    end_beats: bool = True
    """Whether a NodeManager heartbeats as well when a container has ended, as Hadoop 3.4's does."""


class KairosSettings(Production):
    """Settings of Kairos by the production machines."""

    policies: dict[str, Any] = Field(default_factory=lambda: dict(KAIROS))
    """The section `policies` of quicksilver.yaml; default: Kairos' (thesis §4.5.2)."""
    node_beat_s: float = Field(1.0, gt=0)
    """Between heartbeats of a NodeManager (Hadoop's default)."""


class _System:
    """The production machines under a name."""

    def __init__(self, name: str, settings: type[Production], about: str) -> None:
        """Have defaults of these settings."""
        self.name, self.Settings, self.about = name, settings, about

    def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: Production, seed: int) -> SimResult:
        """Run all jobs. Raises SimulatorError for policies that cannot be loaded, or a task that fits no node."""
        simulation = world(jobs, cluster, settings, seed)
        busy: list[tuple[float, float]] = []
        simulation.later(0.0, partial(_sample, simulation, busy, settings.sample_s))
        simulation.go()
        return outcome(simulation, self.name, seed, busy)


def world(
    jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: Production, seed: int, until_s: float = inf
) -> World:
    """Return a run that has not begun; at `until_s` it is broken off. Raises SimulatorError as `run` does."""
    try:
        policies = Policies.load(settings.policies)
    except SettingsMistakesError as error:
        raise SimulatorError(f"policies: {error}") from error
    master = Resources(settings.master_memory_mb, settings.master_cores)
    work = _Work(jobs, cluster, master)
    setup = Setup(
        nodes=cluster.nodes,
        size=work.size,
        node_beat_s=settings.node_beat_s,
        master_beat_s=settings.master_beat_s,
        report_s=settings.report_s,
        start_s=settings.start_s + cluster.delay_s,
        off_switch=settings.off_switch,
        end_beats=settings.end_beats,
        launch_s=settings.launch_s,
        reuse_s=settings.reuse_s,
        master_start_s=settings.master_start_s,
        slow_start_ratio=settings.slow_start_ratio,
        master=master,
        counted=settings.counted,
        wrong_nodes=settings.wrong_nodes,
        wrong_times=settings.wrong_times,
        slow_nodes=settings.slow_nodes,
        slow_times=settings.slow_times,
        max_jobs=settings.max_jobs,
        shares=policies.node.shrinking() is not None,
        eager=settings.eager,
        app_type=settings.app_type,
        until_s=until_s,
        hours=_hours(policies, settings.begins),
    )
    return World(setup, work, policies, seed, settings.corrected)


def _hours(policies: Policies, begins: str) -> Callable[[float], Hours] | None:
    """Return what tells the open windows by the clock of a run; None without windows. Raises SimulatorError."""
    if not policies.windows:
        return None
    from quicksilver.common.settings.calendar import Calendar  # takes a while

    try:
        zone = ZoneInfo(policies.time_zone) if policies.time_zone else None
        at = datetime.fromisoformat(begins)
        calendar = Calendar(policies.windows, policies.time_zone)
    except (ValueError, KeyError, OSError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise SimulatorError(f"begins or windows: {error}; begins is a time such as 2026-11-23T22:00") from error
    ahead_s = (at if at.tzinfo is not None else at.replace(tzinfo=zone)).timestamp() - EPOCH_S

    def hours(now_s: float) -> Hours:
        known = calendar.hours(now_s + ahead_s)
        return Hours(known.open, tuple(replace(change, at_s=change.at_s - ahead_s) for change in known.coming))

    return hours


class _Work:
    """Jobs of a trace as those of the production machines."""

    def __init__(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, master: Resources) -> None:
        self.size = Resources(cluster.memory_mb or _PLENTY_MB, cluster.slots)
        self._jobs, self._master, self._alone = jobs, master, cluster.nodes == 1

    def __iter__(self) -> Iterator[Work]:
        before_s = -inf
        for job in self._jobs:
            if job.arrives_s < before_s:
                raise SimulatorError(f"job {job.number} arrives before the one that comes first; sort by arrival")
            before_s = job.arrives_s
            yield self._work(job)

    def _work(self, job: SimulatedJob) -> Work:
        size = Resources(job.memory_mb, job.cores)
        if not size.fits(self.size) or not job.cores.is_integer():
            raise SimulatorError(
                f"job {job.number}: a task wants {job.cores:g} cores and {job.memory_mb} MB; YARN counts whole cores, "
                "and no node has more than its slots and memory"
            )
        if not (self._master + size if self._alone else self._master).fits(self.size):
            raise SimulatorError(f"job {job.number}: no node has room for its master beside a task; lower master_cores")
        tasks = tuple(map(Task, job.durations_s))
        queue, user = full_queue(job.queue), job.user or "nobody"
        stages = tuple((len(durations_s), told_s) for durations_s, told_s in job.by_stage()) if job.staged else ()
        return Work(job.number, job.name or "job", queue, user, job.arrives_s, job.estimate_s, tasks, size, stages)


def _sample(world: World, busy: list[tuple[float, float]], every_s: float) -> None:
    busy.append((world.since_s(), world.busy_vcores() / world.run.slots))
    if world.going:
        world.later(every_s, partial(_sample, world, busy, every_s))


KAIROS_SYSTEM: Final = _System(
    "kairos", KairosSettings, "Kairos on YARN (thesis §4.4): variance placement, LAS at nodes; by the same machines."
)
MERCURY_SYSTEM: Final = _System(
    "mercury", Production, "Mercury (ATC '15) by the same machines, with the heartbeats of its test bed."
)
OPPORTUNISTIC_SYSTEM: Final = _System(
    "opportunistic", Hadoop, "What Hadoop 3 does for opportunistic containers, by the same machines."
)
QUICKSILVER_SYSTEM: Final = _System(
    "quicksilver", Quicksilver, "The product's own proxy and sidecars on stock YARN, with the policies of --config."
)
