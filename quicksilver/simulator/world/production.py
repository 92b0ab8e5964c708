"""Everything together under the virtual clock: masters, attempts, coordinator, ResourceManager, sidecars.

The proxy's and the sidecars' machines are those of the product; messages between them and to masters and the
ResourceManager are real, and arrive at once. What takes time: heartbeats, starts, kills, reports, rounds, tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from random import Random
from typing import Final

from policies.config.policy_set import Policies
from quicksilver.common.messages import Targets
from quicksilver.simulator.clock import Clock
from quicksilver.simulator.world.job_masters import JobMasters, WorldCluster
from quicksilver.simulator.world.regular import REFRESH, ROUND, Regular
from quicksilver.simulator.world.rest import Rest
from quicksilver.simulator.world.scheduler import SchedulerNode as RmNode
from quicksilver.simulator.world.setup import EPOCH_S, Run, Setup
from quicksilver.simulator.world.site import Site
from quicksilver.simulator.world.views import FixedEstimates, ReportedPlacer, understated
from quicksilver.simulator.world.work import WorldJob
from quicksilver.simulator.world.yarn import Yarn
from rm_proxy.attempt.effects import Announce, Decided, DropHeld, Effect, Faulted, FellBack, Granted, Returned
from rm_proxy.coordinator.cluster_state import Limits
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.placement import Placer
from rm_proxy.estimates.estimator import Estimator

ROUND_S: Final = 1.0
"""Between rounds of the proxy."""
COALESCE_S: Final = 0.02
"""Of changes into one report, as in the sidecar."""
REFRESH_S: Final = 5.0
_PER_RACK: Final = 20


class World:
    """One run; `go` is its life."""

    def __init__(
        self, setup: Setup, jobs: Iterable[WorldJob], policies: Policies, seed: int, corrected: bool = True
    ) -> None:
        """Prepare. jobs: by arrival; corrected: whether estimates learn from tasks that ended."""
        self.setup, self.start_s, self.clock = setup, setup.start_s, Clock(EPOCH_S)
        self.launch_s, self.reuse_s = setup.launch_s, setup.reuse_s
        self.slivers = setup.slow_start_ratio < 1 or bool(setup.master.vcores)
        self.coordinator = Coordinator(
            policies,
            Random(f"coordinator {seed}"),
            Limits(report_fresh_s=inf),  # sidecars never fall silent here
            estimator=Estimator() if corrected else FixedEstimates(),
            placer=Placer if setup.counted else ReportedPlacer,
        )
        rng = Random(f"nodes {seed}")
        racks = [f"/rack{n // _PER_RACK}" for n in range(setup.nodes)]
        names = [(f"node{n:04d}", rack) for n, rack in enumerate(racks)]
        nodes = (RmNode(f"{host}:8041", host, rack, setup.size) for host, rack in names)
        self.yarn = Yarn(nodes, setup.off_switch)
        self.sites = {
            node_id: Site(node_id, setup.size, policies, self, setup.shares, setup.report_s)
            for node_id in self.yarn.nodes
        }
        slow = set(rng.sample(list(self.sites), round(setup.slow_nodes * setup.nodes)))
        self.wrong = set(rng.sample(list(self.sites), round(setup.wrong_nodes * setup.nodes)))
        self.run = Run([], round(setup.nodes * setup.size.vcores), setup.window_s)
        self._rest = Rest(self.yarn, self.coordinator, setup.eager)
        self._regular = Regular(self.clock, self.yarn, self.sites, setup)
        jobs_of = self._jobs = JobMasters(self._cluster(names, slow), jobs, self._carry_out, rng)
        self.masters = jobs_of.masters
        self.run_s, self.began, self.ended, self.reused = jobs_of.run_s, jobs_of.began, jobs_of.ended, jobs_of.reused
        self.yarn.news = jobs_of.rouse
        self._reporting: set[str] = set()
        self._rng = rng

    def _cluster(self, names: list[tuple[str, str]], slow: set[str]) -> WorldCluster:
        """Return what masters see of the world. names: hosts and racks; slow: ids of slow nodes."""
        return WorldCluster(
            setup=self.setup,
            clock=self.clock,
            coordinator=self.coordinator,
            yarn=self.yarn,
            sites=self.sites,
            names=names,
            slow=slow,
            rest=self._rest,
            regular=self._regular,
            run=self.run,
        )

    # Clock

    @property
    def now_s(self) -> float:
        """The time."""
        return self.clock.now_s

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something after so many seconds; what is due at once goes in the order in which it was asked for."""
        self.clock.later(seconds, do)

    @property
    def going(self) -> bool:
        """Whether jobs are still to arrive or to end."""
        return self._jobs.going

    def go(self) -> Run:
        """Run to the end of all jobs; those that do not come to theirs are left unfinished."""
        self._rest.report(self._jobs.queues, self.now_s)
        setup, policies = self.setup, self.coordinator.policies
        self._open_windows()
        for site in self.sites.values():
            self._report(site)
        every = (policies, *policies.alternatives.values())
        self._regular.begin(
            self._rng,
            all(each.policy_name(slot) == "none" for slot in ("police", "correct") for each in every),
            self._report,
        )
        self.clock.regularly(EPOCH_S + REFRESH_S, REFRESH_S, REFRESH, self._refresh)
        self.clock.regularly(EPOCH_S + ROUND_S, ROUND_S, ROUND, self._round)
        if setup.window_s < inf:
            self.later(setup.window_s, self._look_at_use)
        self._jobs.next()
        until_s = EPOCH_S + setup.until_s
        while self._jobs.going and self.clock.next_s <= until_s:
            self.clock.step()
        return self._summed_up()

    def _look_at_use(self) -> None:
        self.run.busy_s = sum(site.so_far_s() for site in self.sites.values())

    def _summed_up(self) -> Run:
        run = self.run
        run.masters = list(self.masters.values())
        for site in self.sites.values():
            run.sheds.update(site.sheds)
            run.lost_s += site.lost_s
            run.counts.update(site.warnings)
            run.counts.update(site.resizes)
            run.over_capacity += not site.peak.fits(site.capacity)
        run.counts["steps"] = self.clock.events
        return run

    def _refresh(self) -> None:
        self._rest.report(self._jobs.queues, self.now_s)
        self.clock.regularly(EPOCH_S + REFRESH_S, REFRESH_S, REFRESH, self._refresh)

    def busy_vcores(self) -> float:
        """Return the cores that tasks hold now."""
        return sum(site.busy_vcores() for site in self.sites.values())

    def since_s(self) -> float:
        """Return the seconds since the begin of the run."""
        return self.now_s - EPOCH_S

    # The proxy

    def _open_windows(self) -> None:
        """Open and close the windows of the policies, as the proxy and the sidecars do each second."""
        coordinator, hours = self.coordinator, self.setup.hours
        policies = coordinator.policies.at(hours(self.now_s)) if hours is not None else coordinator.policies
        if policies is coordinator.policies:
            return
        self.run.counts["windows changed"] += 1
        coordinator.use(policies, self.now_s)
        for site in self.sites.values():
            site.use(policies)

    def _round(self) -> None:
        self._open_windows()
        self.coordinator.rounds.all_parts(self.now_s)
        self._carry_out(self.coordinator.take_effects())
        self.clock.regularly(EPOCH_S + ROUND_S, ROUND_S, ROUND, self._round)

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Announce():
                    self.sites[effect.node_id].announce(effect.grant)
                case DropHeld():
                    self.sites[effect.node_id].drop((effect.container_id,), effect.reason)
                case Granted():
                    self.run.counts[f"granted {effect.record.kind}"] += 1
                case FellBack() | Returned():
                    self.run.counts[type(effect).__name__] += 1
                case Faulted():
                    self.run.faults.append(effect.fault)
                case Decided():
                    self.run.counts[f"decided {effect.record.slot}"] += 1

    def changed(self, node_id: str) -> None:
        """Have a node report soon, and heartbeat when containers ended and it does so then."""
        site = self.sites[node_id]
        if site.ends and self.setup.end_beats:
            self._regular.heartbeat(site)
        elif site.ends:
            self._regular.ended(site)
        if self.setup.counted and node_id not in self._reporting:
            self._reporting.add(node_id)
            self.later(COALESCE_S, partial(self._report, site))

    def stirred(self, node_id: str) -> Targets | None:
        """Have a node report regularly again; return what the proxy wants of it."""
        self._regular.stir(self.sites[node_id])
        return self.coordinator.targets.of(node_id)

    def _report(self, site: Site) -> None:
        self._reporting.discard(site.id)
        report = site.report()
        if site.id in self.wrong:
            report = understated(report, self.setup.wrong_times)
        site.acknowledged(self.coordinator.reports.report(site.id, report, self.now_s))
        for attempt in self.coordinator.attempts.unjournaled.take():
            if not attempt.at_rest:
                self._jobs.rouse(int(attempt.app_id.rpartition("_")[2]))
