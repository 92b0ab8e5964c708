"""What a run of the production machines is given, and what it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final

from policies.config.windows import Hours
from policies.model import Resources
from quicksilver.simulator.world.master import Master

EPOCH_S: Final = 1_000_000.0
"""When a run begins by its clock: late enough for nothing to look as if it had just been heard of."""
_NOTHING: Final = Resources()


@dataclass(frozen=True, slots=True)
class Setup:
    """The cluster, and what things take in it. Times in seconds, shares in 0..1."""

    nodes: int
    size: Resources
    """Of each node."""
    queues: tuple[str, ...] = ()
    """Paths of the queues that there are from the begin; others come with their first job."""
    window_s: float = inf
    """When it is looked at how much was used."""
    until_s: float = inf
    """When a run is broken off."""
    node_beat_s: float = 1.0
    """Between heartbeats of a NodeManager."""
    master_beat_s: float = 1.0
    report_s: float = 2.0
    """Between reports of a sidecar."""
    start_s: float = 0.1
    """From a start that goes to the NodeManager to its process."""
    off_switch: int = 1
    """Guaranteed containers without locality that a node is given in one heartbeat."""
    shares: bool = False
    """Whether containers share the cores of a node, where the `preempt` policy shrinks them."""
    end_beats: bool = False
    """Whether a NodeManager heartbeats as well when a container has ended (Hadoop 3; 2.4.1 did not)."""
    launch_s: float = 0.0
    """From a container's process to its first task's begin: localization, the JVM. The sidecar takes it for work."""
    reuse_s: float | None = None
    """From a task's end to the next one's begin in the same container, as Tez has it; None: a container for each."""
    master_start_s: float = 0.0
    """From a job's turn to its master's first heartbeat."""
    slow_start_ratio: float = 1.0
    """Share of a stage's tasks that have ended when the next one is asked for (MapReduce's slow start)."""
    master: Resources = _NOTHING
    """What a job's master holds, guaranteed, from its turn to its end; nothing: it runs elsewhere."""
    max_jobs: int = 0
    """Jobs that run at once; 0 for any number."""
    counted: bool = True
    """Whether placements are counted at once, as in production; else reports alone tell, and at their time only."""
    wrong_nodes: float = 0.0
    wrong_times: float = 1.0
    """How much longer one waits at such nodes than their sidecars tell."""
    slow_nodes: float = 0.0
    slow_times: float = 1.0
    """How much longer tasks take on slow nodes."""
    remote_times: float = 1.0
    """How much longer a task takes that does not run on its host."""
    hours: Callable[[float], Hours] | None = None
    """Returns the windows of the policies that are open at a time of the run; None without windows."""
    eager: bool = False
    """Whether heartbeats and reports that can change nothing are done as well."""
    app_type: str = "MAPREDUCE"
    """YARN's application type of all jobs."""


@dataclass(slots=True)
class Run:
    """What a run showed; times in seconds since its begin."""

    masters: list[Master]
    slots: int
    window_s: float
    busy_s: float = 0.0
    """Core seconds used by the end of the arrivals."""
    sheds: Counter[str] = field(default_factory=Counter)
    lost_s: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """Effects of the proxy by name, warnings of sidecars, steps of the simulation."""
    faults: list[str] = field(default_factory=list)
    over_capacity: int = 0
    """Nodes where more ran at once than they have."""
