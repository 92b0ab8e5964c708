"""Apollo (OSDI '14): each job places its own tasks by when they will be over, and decisions are corrected later."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

from pydantic import Field

from policies.common.completion_time import CompletionTime
from policies.common.tokens import Tokens
from policies.correct.apollo import Apollo
from quicksilver.simulator.clock import Clock
from quicksilver.simulator.model import ClusterModel, SimResult, SimulatedJob
from quicksilver.simulator.systems import SystemSettings
from quicksilver.simulator.tally import SAMPLE_S, Tally
from quicksilver_lab.papers.algorithms.stragglers import Stragglers
from quicksilver_lab.papers.apollo.job_manager import JobManager
from quicksilver_lab.papers.apollo.process_node import ProcessNode
from quicksilver_lab.papers.apollo.resource_monitor import ResourceMonitor
from quicksilver_lab.papers.apollo.task import ApolloWorld, TaskShape
from quicksilver_lab.papers.apollo.virtual_cluster import VirtualCluster
from quicksilver_lab.papers.apollo.watch import ApolloWatch


class ApolloSettings(SystemSettings):
    """Settings of Apollo. Traces tell neither inputs nor tokens: inputs are anywhere, all jobs have as many tokens."""

    tokens: int = Field(100, ge=1)
    """Regular tasks that a job may have out (§2.3, §3.5; figure own)."""
    cluster_tokens: int = Field(0, ge=0)
    """Tokens of all jobs together: a job begins when it can have its own, or one for each task, first come, first
    served (§2.3). 0: without limit, all jobs begin at once and wait at the servers."""
    batch: int = Field(1000, ge=1)
    """Tasks that are matched at once (§5.5: a batch contains less than 1,000)."""
    report_s: float = Field(5.0, gt=0)
    """Between rounds in which the servers tell their wait-time matrices (§3.2; figure own)."""
    light_ratio: float = Field(0.2, gt=0, le=1)
    """Share of the servers that are on the list of lightly loaded ones (§3.3; figure own)."""
    light_servers: int = Field(2, ge=1)
    """Of that list, candidates of a task, drawn at random (§3.3)."""
    reading_ratio: float = Field(0.0, ge=0, lt=1)
    """Share of its run time that a task reads, where its input is on the server itself; slower from elsewhere, by
    `completion`. 0: where inputs are does not matter, and they are no candidates."""
    replicas: int = Field(3, ge=1)
    """Servers that have a task's input; candidates (§3.3 (i))."""
    rack_servers: int = Field(2, ge=0)
    """Candidates in the rack of each of those (§3.3 (ii); figure own)."""
    rack_nodes: int = Field(40, ge=1)
    """Servers of a rack."""
    jitter_ratio: float = Field(0.01, ge=0)
    """A random number up to this share of `report_s` is added to each estimate (§3.4; figure own)."""
    corrected: bool = True
    """Whether decisions are looked at again, and duplicates sent (§3.4)."""
    completion: CompletionTime = CompletionTime()
    """Settings of the completion time."""
    opportunistic: Tokens = Tokens()
    """Settings of opportunistic tasks; `allowance_ratio: 0` for none."""
    correction: Apollo = Apollo()
    """Settings of the correction: those of `correct: apollo`."""
    slow_tries: float = Field(0.0, ge=0, lt=1)
    """Share of the tries that go slowly, by chance and whatever the task; a task begun anew has a new chance (own)."""
    slow_times: float = Field(5.0, ge=1)
    """How many times longer such a try takes (own)."""
    reruns: bool = True
    """Whether stragglers get a second copy (§3.4)."""
    straggling: Stragglers = Stragglers()
    """Settings of what is a straggler."""
    bad_nodes: float = Field(0.0, ge=0, le=1)
    """Share of the servers on which tries fail (own)."""
    fail_tries: float = Field(0.5, ge=0, lt=1)
    """Share of the tries on such a server that fail, at any time of their run; their task begins anew (own). What a
    server did so far tells how likely it is to succeed, which counts in the completion time (§3.3)."""
    sample_s: float = Field(SAMPLE_S, gt=0)
    """Between samples of how many slots are busy."""

    def shape(self, cluster: ClusterModel) -> TaskShape:
        """Return what does not change in a run."""
        return TaskShape(
            delay_s=cluster.delay_s,
            racks_of=self.rack_nodes,
            jitter_s=self.jitter_ratio * self.report_s,
            **{name: getattr(self, name) for name in _SAME},
        )


_SAME: Final = (
    "tokens",
    "batch",
    "replicas",
    "rack_servers",
    "light_servers",
    "light_ratio",
    "report_s",
    "reading_ratio",
    "corrected",
    "completion",
    "opportunistic",
    "correction",
    "slow_tries",
    "slow_times",
    "reruns",
    "straggling",
    "bad_nodes",
    "fail_tries",
)


class _Apollo:
    """Job managers, process nodes and the resource monitor."""

    name: Final = "apollo"
    about: Final = (
        "Apollo (OSDI '14): each job places its own tasks by when they will be over, and corrects that later."
    )
    Settings: Final = ApolloSettings

    def run(
        self, jobs: Iterable[SimulatedJob], cluster: ClusterModel, settings: ApolloSettings, seed: int
    ) -> SimResult:
        """Run all jobs. Tasks take slots; their cores and memory are not counted."""
        clock = Clock()
        tally = Tally(self.name, seed, clock, cluster, settings.sample_s)
        world = ApolloWorld(
            clock, tally, Random(seed), settings.shape(cluster), VirtualCluster(settings.cluster_tokens)
        )
        bad = set(world.rng.sample(range(cluster.nodes), round(settings.bad_nodes * cluster.nodes)))
        world.nodes = [ProcessNode(number, cluster.slots, world, number in bad) for number in range(cluster.nodes)]
        world.monitor = ResourceMonitor(world)
        world.watch = ApolloWatch(world)

        def arrive(job: SimulatedJob) -> None:
            numbers_from = tally.counts["tasks"]
            tally.arrived(job)
            world.virtual.ask(
                min(settings.tokens, len(job.durations_s)),
                lambda tokens: JobManager(world, job, numbers_from, tokens).soon(),
            )

        clock.later(settings.report_s, world.monitor.round)
        tally.feed(jobs, arrive)
        clock.run()
        result = tally.result()
        result.extra |= world.figures.summary()
        return result


SYSTEM: Final = _Apollo()
