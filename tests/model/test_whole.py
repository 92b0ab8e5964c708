"""Relay, ask tables, coordinator and the sidecar's machines against models of YARN, through random histories.

Left alone in the end, everything comes to rest: each task got a container, each container one completion, and all
sums are zero. Long runs: `pytest tests/model --hypothesis-profile=long`.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from policies.config.policy_set import Policies
from rm_proxy.coordinator.error_budget import FaultKind, Order
from rm_proxy.domain.ids import app_of_attempt
from sidecar.node.events import Drain
from tests.model.checks import check
from tests.model.episodes import of_the_day
from tests.model.requestor import Want
from tests.model.world import Fault, Run, registry

ROUTES: list[dict[str, Any]] = [
    {"policy": "only_q"},
    {"policy": "hybrid_gq", "settings": {"td_s": 1000.0, "pq": 50.0}},
    {"policy": "only_g"},
]
QUOTAS: list[dict[str, Any]] = [
    {"policy": "none"},
    {"policy": "absolute", "settings": {"max_q": 3}},
    {"policy": "relative", "settings": {"per_g": 1.0, "min_q": 1}},
]
PROMOTES: list[dict[str, Any]] = [
    {"policy": "none"},
    {"policy": "on_start", "settings": {"min_remaining_s": 0.0}},
    {"policy": "when_room", "settings": {"min_remaining_s": 0.0, "min_ran_s": 1.0}},
    {"policy": "token", "settings": {"min_remaining_s": 0.0, "job_tokens": 1}},
]
ORDERS = ["job_submission", "srpt", "sjf", "hrrn", "fifo", "random"]
EAGER = {"settle_s": 0.0, "max_share_ratio": 1.0}
SHEDS: list[dict[str, Any]] = [
    {"policy": "none"},
    {"policy": "mean_sigma", "settings": {"c": 0.5, "min_wait_s": 0.0, **EAGER}},
    {"policy": "queue_length", "settings": {"min_length": 0, "max_length": 1, **EAGER}},
]
POLICING: list[dict[str, Any]] = [
    {"policy": "none"},
    {"policy": "history", "settings": {"margin_ratio": 0.0, "recent_s": 0.0, "damping": {}}},
    {"policy": "memory_limit", "settings": {"max_ratio": 0.5}},
]
ADMITS: list[dict[str, Any]] = [
    {"policy": "none"},
    {"policy": "tokens", "settings": {"job_tokens": 1}},
    {"policy": "tokens", "settings": {"queue_ratio": 0.5, "allowance_ratio": 0.5}},
]
PLACES = ["least_queue", "topk_wait", "random", "variance"]
FAULTS: list[Fault] = [*[""] * 6, "unseen", "unanswered", "untold"]


MOVES: list[dict[str, Any]] = [
    {},
    {
        "steal": {"policy": "hawk", "settings": {"behind_long": False, "idle_s": 0, "min_wait_s": 0}},
        "correct": {"policy": "apollo", "settings": {"grown_s": 0, "gain_s": 0, "gain_ratio": 0}},
    },
]


def policies(
    route: int, quota: int, place: int, mode: str = "active", promote: int = 0, moves: int = 0
) -> dict[str, Any]:
    return {
        "queues": "*",
        "mode": mode,
        "routes": [ROUTES[route]],
        "quota": QUOTAS[quota],
        "admit": ADMITS[(route + quota + moves) % 3],
        "place": {"policy": PLACES[place]},
        "order": {"policy": ORDERS[(route + quota + place) % len(ORDERS)]},
        "promote": PROMOTES[promote],
        "shed": SHEDS[(route + place) % 3],
        "police": POLICING[(quota + place) % 3],
        **MOVES[moves],
    }


class Whole(RuleBasedStateMachine):
    """Two jobs, a few nodes."""

    world: type[Run] = Run

    @initialize(
        route=st.integers(0, 2),
        quota=st.integers(0, 2),
        place=st.integers(0, 3),
        promote=st.integers(0, 3),
        moves=st.integers(0, 1),
        nodes=st.integers(1, 4),
        types=st.sampled_from([("MAPREDUCE", "SPARK"), ("MAPREDUCE", "MAPREDUCE"), ("TEZ", "YARN")]),
        seed=st.integers(0, 9),
        tight=st.booleans(),
    )
    def begin(
        self,
        route: int,
        quota: int,
        place: int,
        promote: int,
        moves: int,
        nodes: int,
        types: tuple[str, str],
        seed: int,
        tight: bool,
    ) -> None:
        self.run = self.world(policies(route, quota, place, promote=promote, moves=moves), types, nodes, seed)
        if tight:
            self.run.tighten(routed=3, placed=2, parked=3)
        self.nodes = [f"host{n}" for n in range(1, nodes + 1)]
        self.opportunistic = False

    def am(self, number: int) -> Any:
        return self.run.ams[number]

    # Application masters

    @rule(
        job=st.integers(0, 1),
        count=st.integers(1, 6),
        priority=st.sampled_from([5, 10, 20, 20]),
        hosts=st.lists(st.integers(0, 3), max_size=3),
    )
    def asks(self, job: int, count: int, priority: int, hosts: list[int]) -> None:
        names = tuple(dict.fromkeys(self.nodes[h % len(self.nodes)] for h in hosts))
        racks = tuple(dict.fromkeys(f"/r{int(n[-1]) % 2}" for n in names))
        for _ in range(count):
            self.am(job).ask(Want(0, priority, names, racks, 2048 if priority == 10 else 1024))

    @rule(job=st.integers(0, 1), count=st.integers(1, 3))
    def asks_for_opportunistic_ones(self, job: int, count: int) -> None:
        self.opportunistic = True
        for _ in range(count):
            self.am(job).ask(Want(0, 19, opportunistic=True))

    @rule(job=st.integers(0, 1), which=st.integers(0, 50), count=st.integers(1, 4))
    def cancels(self, job: int, which: int, count: int) -> None:
        for _ in range(min(count, len(self.am(job).wanted))):
            self.am(job).cancel(sorted(self.am(job).wanted)[which % len(self.am(job).wanted)])

    @rule(job=st.integers(0, 1), fault=st.sampled_from(FAULTS), again=st.booleans())
    def heartbeat(self, job: int, fault: Fault, again: bool) -> None:
        self.run.heartbeat(self.am(job), fault, again)

    @rule(job=st.integers(0, 1), most=st.integers(1, 4))
    def starts(self, job: int, most: int) -> None:
        am = self.am(job)
        for container_id in [c for c, a in am.assigned.items() if a.call_id is None][:most]:
            self.run.start(am, container_id)

    @rule(job=st.integers(0, 1), which=st.integers(0, 50))
    def stops(self, job: int, which: int) -> None:
        am = self.am(job)
        started = [c for c, a in am.assigned.items() if a.started and not a.stopped]
        if started:
            self.run.stop(am, started[which % len(started)])

    @rule(job=st.integers(0, 1), which=st.integers(0, 50))
    def releases(self, job: int, which: int) -> None:
        am = self.am(job)
        if am.assigned:
            am.release(sorted(am.assigned)[which % len(am.assigned)])

    # Nodes

    @rule(node=st.integers(0, 3))
    def node_heartbeat(self, node: int) -> None:
        self.run.node_heartbeat(f"{self.nodes[node % len(self.nodes)]}:8041")

    @rule(node=st.integers(0, 3), exit_status=st.sampled_from([0, 0, 0, 1, -108]), which=st.integers(0, 50))
    def ends(self, node: int, exit_status: int, which: int) -> None:
        site = self.run.sites[f"{self.nodes[node % len(self.nodes)]}:8041"]
        if site.running:
            site.finish(sorted(site.running)[which % len(site.running)], exit_status)

    @rule(seconds=st.sampled_from([0.2, 1.0, 1.0, 5.0, 30.0, 130.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.run.tick(seconds)
        for am in self.run.ams:
            self.run.look(am)

    @rule(node=st.integers(0, 3), takes=st.booleans())
    def allocator_finds_no_place(self, node: int, takes: bool) -> None:
        self.run.rm.nodes[f"{self.nodes[node % len(self.nodes)]}:8041"].takes_o = takes

    @rule(node=st.integers(0, 3), job=st.integers(0, 1))
    def session_is_lost(self, node: int, job: int) -> None:
        self.run.sites[f"{self.nodes[node % len(self.nodes)]}:8041"].lose_session(self.am(job).attempt_id)
        self.run.look(self.am(job))

    @rule(node=st.integers(0, 3))
    def sidecar_crashes(self, node: int) -> None:
        self.run.sites[f"{self.nodes[node % len(self.nodes)]}:8041"].crash()
        for am in self.run.ams:
            self.run.look(am)

    @precondition(lambda self: sum(app.attempt for app in self.run.rm.apps.values()) < 8)
    @rule(job=st.integers(0, 1), keeps=st.booleans())
    def application_master_dies(self, job: int, keeps: bool) -> None:
        self.run.kill_am(job + 1, keeps)

    @rule(node=st.integers(0, 3))
    def node_manager_dies(self, node: int) -> None:
        self.run.kill_nodemanager(f"{self.nodes[node % len(self.nodes)]}:8041")
        for am in self.run.ams:
            self.run.look(am)

    @rule(node=st.integers(0, 3))
    def node_is_lost(self, node: int) -> None:
        self.run.lose_node(f"{self.nodes[node % len(self.nodes)]}:8041")

    @rule(node=st.integers(0, 3), recovers=st.booleans())
    def node_manager_returns(self, node: int, recovers: bool) -> None:
        self.run.return_nodemanager(f"{self.nodes[node % len(self.nodes)]}:8041", recovers)

    @rule(node=st.integers(0, 3), on=st.booleans())
    def drains(self, node: int, on: bool) -> None:
        site = self.run.sites[f"{self.nodes[node % len(self.nodes)]}:8041"]
        site.tell(Drain(on, "maintenance", self.run.now_s))

    @rule(node=st.integers(0, 3))
    def node_manager_refuses_the_next_start(self, node: int) -> None:
        self.run.sites[f"{self.nodes[node % len(self.nodes)]}:8041"].refuse_next = True

    @rule(announcements=st.booleans(), drops=st.booleans())
    def sidecars_are_out_of_reach(self, announcements: bool, drops: bool) -> None:
        self.run.lose_announcements, self.run.lose_drops = announcements, drops

    @precondition(lambda self: len(self.run.rm.forgotten) < 60 and not any(s.down for s in self.run.sites.values()))
    @rule()
    def resource_manager_restarts(self) -> None:
        self.run.restart_rm()

    @rule(
        job=st.integers(0, 1),
        fault=st.sampled_from(FAULTS),
        again=st.booleans(),
        effects=st.booleans(),
        compacts=st.booleans(),
    )
    def proxy_dies(self, job: int, fault: Fault, again: bool, effects: bool, compacts: bool) -> None:
        """Killed between two calls of a job, or within one."""
        self.run.lose_effects = not effects
        self.run.compacts = compacts
        self.run.heartbeat(self.am(job), fault, again)
        self.run.proxy_dies()

    @rule(
        route=st.integers(0, 2),
        quota=st.integers(0, 2),
        place=st.integers(0, 3),
        moves=st.integers(0, 1),
        mode=st.sampled_from(["active", "active", "shadow"]),
        promote=st.integers(0, 3),
    )
    def policies_change(self, route: int, quota: int, place: int, moves: int, mode: str, promote: int) -> None:
        self.run.use(Policies.load(policies(route, quota, place, mode, promote, moves), registry()))

    @rule(job=st.integers(0, 1), fault=st.sampled_from(FAULTS), again=st.booleans())
    def own_code_fails(self, job: int, fault: Fault, again: bool) -> None:
        """Over a request, or over its answer."""
        self.run.heartbeat(self.am(job), fault, again)
        self.run.own_fault(self.am(job))

    @rule(order=st.sampled_from(["on", "off", "auto"]))
    def bypass_is_ordered(self, order: Order) -> None:
        self.run.coordinator.modes.bypass(order, self.run.now_s)
        self.run.carry_out(self.run.coordinator.take_effects())

    @rule(job=st.integers(0, 1), kind=st.sampled_from(list(FaultKind)), count=st.integers(1, 12))
    def faults_count(self, job: int, kind: FaultKind, count: int) -> None:
        for _ in range(count):
            self.run.coordinator.modes.budget.note(kind, app_of_attempt(self.am(job).attempt_id), self.run.now_s)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "run"):
            check(self.run)

    def teardown(self) -> None:
        if hasattr(self, "run"):
            try:
                self.comes_to_rest()
            finally:
                self.run.close()

    def comes_to_rest(self) -> None:
        """Left alone, every task gets its container, every container its end, and every sum is zero."""
        for site in self.run.sites.values():
            site.tell(Drain(False, "", self.run.now_s))
        if self.opportunistic:
            self.bypass_is_ordered("off")  # in bypass nobody places what applications ask for as such
        self.run.settle()
        check(self.run)
        for node in self.run.coordinator.nodes.values():
            assert not [key for key, own in node.own.items() if not own.reserved], f"{node.id} expects what never comes"
        for am in self.run.ams:
            attempt = self.run.coordinator.attempts[am.attempt_id]
            assert not attempt.entries and not len(attempt.live)
            allowed = am.cancelled + self.run.rm.excess[am.number] + self.run.broken[am.number]
            assert am.surplus <= allowed, f"{am.surplus} more than it wanted, stock YARN gives {allowed}"
            assert (attempt.live.used_g.memory_mb, attempt.live.used_q.memory_mb) == (0, 0)
            assert not self.run.rm.app(am.number).containers
            assert not [k for k, rows in self.run.rm.app(am.number).g.items() if "*" in rows]


TestWhole = of_the_day(Whole, 250, 50)
