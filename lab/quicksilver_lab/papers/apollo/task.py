"""A task of Apollo on its way, and what its servers and its job manager have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from policies.common.completion_time import CompletionTime
from policies.common.tokens import Tokens
from policies.correct.apollo import Apollo
from policies.model import Resources
from quicksilver.simulator.clock import Clock
from quicksilver.simulator.tally import Tally
from quicksilver_lab.papers.algorithms.stragglers import Stragglers
from quicksilver_lab.papers.apollo.figures import ApolloFigures
from quicksilver_lab.papers.apollo.virtual_cluster import VirtualCluster

if TYPE_CHECKING:
    from quicksilver_lab.papers.apollo.job_manager import JobManager
    from quicksilver_lab.papers.apollo.process_node import ProcessNode
    from quicksilver_lab.papers.apollo.resource_monitor import ResourceMonitor
    from quicksilver_lab.papers.apollo.watch import ApolloWatch

SLOT: Final = Resources(0, 1)
"""What a task takes."""


@dataclass(frozen=True, slots=True)
class TaskShape:
    """What does not change in a run."""

    delay_s: float
    tokens: int
    batch: int
    racks_of: int
    replicas: int
    rack_servers: int
    light_servers: int
    light_ratio: float
    jitter_s: float
    report_s: float
    reading_ratio: float
    corrected: bool
    completion: CompletionTime
    opportunistic: Tokens
    correction: Apollo
    slow_tries: float
    slow_times: float
    reruns: bool
    straggling: Stragglers
    bad_nodes: float
    fail_tries: float


@dataclass(slots=True)
class ApolloWorld:
    """One run."""

    clock: Clock
    tally: Tally
    rng: Random
    shape: TaskShape
    virtual: VirtualCluster
    figures: ApolloFigures = field(default_factory=ApolloFigures)
    nodes: list[ProcessNode] = field(default_factory=list)
    monitor: ResourceMonitor = field(init=False)
    watch: ApolloWatch = field(init=False)


@dataclass(slots=True, eq=False)
class ApolloTask:
    """One task; there may be two places where it waits. There is one run of it at a time, and a straggler's copy is a
    task of its own."""

    number: int
    manager: JobManager
    length_s: float
    """Where its input is on the server itself."""
    inputs: tuple[int, ...]
    """Servers that have its input."""
    stage: int
    regular: bool = False
    begun: bool = False
    """It runs, or is over: whatever else waits is void."""
    sent_s: float = 0.0
    placed_wait_s: float = 0.0
    """What its wait was expected to be when it was sent."""
    node: int = -1
    """Where it was sent first."""
    copies: int = 0
    """Places that it was sent to; two for one with a duplicate."""
    sent_regular: bool = False
    at: int = -1
    """Where it runs, or was over."""
    rival: ApolloTask | None = None
    """Of a straggler its copy, of a copy the straggler."""
    original: bool = True
    """Not a straggler's copy."""
