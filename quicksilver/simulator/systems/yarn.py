"""Stock YARN: first come first served (`yarn_fifo`), by queues (`yarn_capacity`), fewest first (`yarn_fair`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic import Field

from policies.settings_model import SettingsModel
from quicksilver.simulator.clock import Clock
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver.simulator.systems import SystemSettings
from quicksilver.simulator.tally import SAMPLE_S, Tally
from quicksilver.simulator.world.resource_manager import ResourceManager, Times
from quicksilver.simulator.world.scheduler import Share


class YarnSystem(SystemSettings):
    """Settings of stock YARN; the defaults are Hadoop 3's."""

    node_beat_s: float = Field(1.0, gt=0)
    """Between heartbeats of a NodeManager (Mercury §7.1 has 3 s)."""
    end_beats: bool = True
    """Whether a NodeManager heartbeats as well when a container has ended, as Hadoop 3.4's does."""
    master_beat_s: float = Field(1.0, gt=0)
    """Between heartbeats of an application master."""
    start_s: float = Field(0.1, ge=0)
    """From a start to the task's begin: the NodeManager and the process."""
    off_switch: int = Field(1, ge=1)
    """Containers without locality that a node is given in one heartbeat (maximum-offswitch-assignments)."""
    slow_start_ratio: float = Field(1.0, ge=0, le=1)
    """Share of a stage's tasks that have ended when the next stage is asked for, if none of them waits for a container
    (mapreduce.job.reduce.slowstart.completedmaps, 0.05 in Hadoop). Containers of the next stage hold their slots until
    all have ended; 1: they come after that, as with the emulated masters of the benchmarks."""
    master_start_s: float = Field(0.0, ge=0)
    """From a job's arrival to its master's first heartbeat: the master's own container and its start."""
    sample_s: float = Field(SAMPLE_S, gt=0)
    """Between samples of how many slots are busy."""

    @property
    def times(self) -> Times:
        """What things take."""
        return Times(
            self.node_beat_s,
            self.master_beat_s,
            self.start_s,
            self.slow_start_ratio,
            self.end_beats,
            self.master_start_s,
        )


class Queue(SettingsModel):
    """A queue of the Capacity Scheduler."""

    capacity: float = Field(gt=0, le=1)
    """Its share of the cluster."""
    maximum: float = Field(1.0, gt=0, le=1)
    """The most that it may use of the cluster."""


class Capacity(YarnSystem):
    """Settings of YARN with the Capacity Scheduler."""

    queues: dict[str, Queue] = Field(default_factory=lambda: {"default": Queue(capacity=1.0)})
    """Leaf queues by the names that jobs have."""


class FairSettings(YarnSystem):
    """Settings of YARN with the Fair Scheduler, one queue and equal applications."""

    off_switch: int = Field(0, ge=0)
    """Containers that a node is given in one heartbeat; 0: until more than half of its free cores are given out
    (assignmultiple with dynamic.max.assign)."""


class _Fifo:
    """One line for all."""

    name: Final = "yarn_fifo"
    about: Final = "Stock YARN, applications first come first served."
    Settings: Final = YarnSystem

    def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: YarnSystem, seed: int) -> SimResult:
        """Run all jobs."""
        return _run(self.name, jobs, cluster, settings, seed, None)


class _Capacity:
    """A line for each queue."""

    name: Final = "yarn_capacity"
    about: Final = "Stock YARN, by queues with their shares (CapacityScheduler)."
    Settings: Final = Capacity

    def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: Capacity, seed: int) -> SimResult:
        """Run all jobs. Raises SimulatorError for one of a queue that is not there."""
        shares = {name: Share(queue.capacity, queue.maximum) for name, queue in settings.queues.items()}
        return _run(self.name, jobs, cluster, settings, seed, shares)


class _Fair:
    """One queue, the application with the fewest containers first."""

    name: Final = "yarn_fair"
    about: Final = "Stock YARN, one queue, the application with the fewest containers first (FairScheduler)."
    Settings: Final = FairSettings

    def run(self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: FairSettings, seed: int) -> SimResult:
        """Run all jobs."""
        return _run(self.name, jobs, cluster, settings, seed, None, fair=True)


def _run(
    name: str,
    jobs: Iterable[SimulatedJob],
    cluster: ClusterModel,
    settings: YarnSystem,
    seed: int,
    queues: dict[str, Share] | None,
    fair: bool = False,
) -> SimResult:
    clock = Clock()
    tally = Tally(name, seed, clock, cluster, settings.sample_s)
    manager = ResourceManager(clock, tally, cluster, settings.times, seed, queues, settings.off_switch, fair)
    tally.feed(jobs, manager.submit)
    clock.run()
    return tally.result()


FIFO: Final = _Fifo()
CAPACITY: Final = _Capacity()
FAIR: Final = _Fair()
