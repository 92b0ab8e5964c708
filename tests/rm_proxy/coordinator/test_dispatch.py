"""Several applications whose containers wait at the proxy: who gets a place that comes free, by the slot `dispatch`."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Kind, Resources
from quicksilver.common.messages import Ack, EventKind
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.attempt.snapshot import Snapshot
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.nodes import node_sampling
from rm_proxy.domain.records import AppRecord
from rm_proxy.yarn.models import YarnQueue
from tests.model.requestor import Want
from tests.model.world import Run
from tests.rm_proxy.yarn_messages import (
    ALL_Q,
    TIMESTAMP,
    Am,
    container,
    container_report,
    coordinator,
    ended,
    event,
    granted_rows,
    node_id,
    report,
    row,
)

LATE = {**ALL_Q, "place": {"policy": "late"}, "dispatch": {"policy": "levels"}}


class Master(Am):
    """The master of another application than the first one."""

    def __init__(self, world: Coordinator, number: int, app_type: str = "YARN", **app: Any) -> None:
        super().__init__(world)
        app_id = f"application_{TIMESTAMP}_{number:04d}"
        base = {"queue": "default", "user": "u", "name": "job", "tags": (), "priority": 0, "submitted_s": number * 1.0}
        world.inventory.update_app(AppRecord(id=app_id, type=app_type, **(base | app)))
        self.attempt = world.attempt(f"appattempt_{TIMESTAMP}_{number:04d}_000001")

    def beats(self, now_s: float, *rows: Any, **more: Any) -> int:
        """Send a request; returns how many containers it asks the ResourceManager for, which grants none yet."""
        self.now_s = now_s
        if self.response_id or self.attempt.exchange.allocates:
            self.gets()
        before = len(self.attempt.table.by_private)
        self.asks(*rows, **more)
        return len(self.attempt.table.by_private) - before


def busy(world: Coordinator, containers: int, now_s: float, number: int = 1) -> None:
    """Let a node of 8 cores report so many containers that run."""
    runs = [
        container_report(container_id=f"container_{TIMESTAMP}_0099_01_{n:06d}", app_id=f"application_{TIMESTAMP}_0099")
        for n in range(containers)
    ]
    used = {"used_q_mb": 1024 * containers, "used_q_vcores": containers}
    world.reports.report(node_id(number), report(number, containers=runs, **used), now_s)


def two(policies: dict[str, Any] | None = None) -> tuple[Coordinator, Master, Master]:
    """Return a full node of 8 cores, a wide application and a small one that wait for it."""
    world = coordinator(policies or LATE, nodes=1)
    busy(world, 8, 1.0)
    wide, small = Master(world, 2), Master(world, 3)
    assert wide.beats(1.0, row("*", 30)) == small.beats(1.5, row("*", 2)) == 0
    return world, wide, small


def test_places_are_kept_for_the_smaller_application_until_it_heartbeats() -> None:
    world, wide, small = two()
    busy(world, 5, 1.9)
    assert wide.beats(2.0) == 1, "three are free, two of them are claimed"
    assert small.beats(2.5) == 2


@pytest.mark.parametrize("wide_s", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("interval_s", [1.0, 2.0, 3.0])
def test_a_small_application_loses_no_place_whatever_its_heartbeat(interval_s: float, wide_s: float) -> None:
    """With one of 3 s, as Spark's, it lost each place to a wide one that came in the last half second before it."""
    for part in range(8):
        world, wide, small = two()
        free_s = 1.5 + 2 * interval_s + part * interval_s / 8 + 0.01
        steps = [(1.5 + interval_s * n, small) for n in range(1, 5)] + [(1.0 + wide_s * n, wide) for n in range(1, 75)]
        got: Counter[Master] = Counter()
        for now_s, master in sorted(steps, key=lambda step: step[0]):
            busy(world, 8 if now_s < free_s else 6, now_s)
            got[master] += master.beats(now_s)
            if got.total():
                break
        assert +got == {small: 2}, f"free {free_s - 1.5:.2f} s after a heartbeat of the small one"


def test_a_place_on_another_node_than_the_one_it_left_is_kept_for_the_smaller_application() -> None:
    """The wide one took what the small one may not use; then it took the next place as if that were left, too."""
    world = coordinator(LATE, nodes=2)
    for number in (1, 2):
        busy(world, 8, 1.0, number)
    wide, other, small = (Master(world, number) for number in (2, 3, 4))
    for one in (wide, other):
        one.beats(1.0, row("*", 30))
    busy(world, 6, 1.4, 1)
    assert small.beats(1.5, row("*", 2), blacklist=["host1"]) == 0
    assert wide.beats(2.0) == 2, "two on host1, which the small one may not use"
    busy(world, 6, 2.1, 2)
    assert other.beats(2.2) == 0
    assert small.beats(2.5) == 2


@pytest.mark.parametrize("interval_s", [1.0, 3.0])
def test_a_place_that_an_application_may_not_use_is_free_for_others_after_its_next_heartbeat(interval_s: float) -> None:
    """It claims each new place once: nobody knows before that it does not want it."""
    world = coordinator(LATE, nodes=2)
    for number in (1, 2):
        busy(world, 8, 1.0, number)
    small, *wides = (Master(world, number) for number in range(2, 6))
    for wide in wides:
        wide.beats(1.0, row("*", 30))
    small.beats(1.5, row("*", 2), blacklist=["host1"])
    for number, wide in enumerate(wides, 1):
        now_s = 1.5 + number * interval_s
        busy(world, 6, now_s - 0.2, 1)
        busy(world, 8, now_s - 0.2, 2)
        assert (wide.beats(now_s - 0.1), small.beats(now_s), wide.beats(now_s + 0.1)) == (0, 0, 2)
        wide.attempt.on_finished()
        busy(world, 8, now_s + 0.2, 1)


def test_without_an_order_the_first_heartbeat_wins() -> None:
    world, wide, small = two({**LATE, "dispatch": {"policy": "none"}})
    busy(world, 5, 1.9)
    assert (wide.beats(2.0), small.beats(2.5)) == (3, 0)


@pytest.mark.parametrize("end", ["silent", "finished", "satisfied"])
def test_an_application_that_does_not_wait_any_more_claims_nothing(end: str) -> None:
    world, wide, small = two()
    if end == "finished":
        small.attempt.on_finished()
    elif end == "satisfied":
        small.beats(1.8, row("*", 0))
    now_s = 5.6 if end == "silent" else 2.0
    assert wide.beats(now_s - 0.1) == 0
    busy(world, 5, now_s)
    assert wide.beats(now_s) == 3


def test_an_application_that_may_not_use_the_free_node_claims_it_once() -> None:
    world = coordinator(LATE, nodes=2)
    for number in (1, 2):
        busy(world, 8, 1.0, number)
    wide, small = Master(world, 2), Master(world, 3)
    wide.beats(1.0, row("*", 30))
    small.beats(1.5, row("*", 2), blacklist=["host1"])
    busy(world, 6, 1.9)
    assert wide.beats(2.0) == 0, "nobody knows yet that the small one does not want it"
    assert small.beats(2.5) == 0
    assert wide.beats(3.0) == 2


def test_priority_of_the_application_comes_before_its_size() -> None:
    world = coordinator(LATE, nodes=1)
    busy(world, 8, 1.0)
    small, urgent = Master(world, 2), Master(world, 3, priority=5)
    small.beats(1.0, row("*", 1))
    urgent.beats(1.0, row("*", 30))
    busy(world, 4, 1.9)
    assert (small.beats(2.0), urgent.beats(2.1)) == (0, 4)


def test_a_map_behind_its_own_reduces_goes_guaranteed_though_others_claim_the_places() -> None:
    world = coordinator(LATE, nodes=1)
    busy(world, 8, 1.0)
    job, small = Master(world, 2, app_type="MAPREDUCE"), Master(world, 3)
    proto = y.ContainerIdProto(id=7)
    reduce = HeldContainer("container_7", proto, node_id(1), Kind.QUEUEABLE, 10, Resources(1024, 1), 10.0, 0.0)
    reduce.start(0.5)
    job.beats(1.0, row("*", 9))
    job.attempt.live.add(reduce)
    small.beats(11.5, row("*", 2))
    busy(world, 6, 11.6)
    assert job.beats(12.0) == 0
    (entry,) = job.attempt.entries
    assert (entry.g_share, entry.q_wanted) == (1, 8), "one at a time"
    assert small.beats(12.5) == 2


def test_attained_service_counts_what_ran_runs_and_was_killed_and_survives_a_restart() -> None:
    am = Am(coordinator(LATE, nodes=1))
    am.attempt.on_registered(b"", 0.0)
    am.asks(row("*", 4))
    am.gets(*(container(n + 1, 1, r) for n, r in enumerate(granted_rows(am.sent.ask).values())))
    live = am.attempt.live
    am.world.reports.report(node_id(1), report(1, events=[event(n, EventKind.STARTED, seq=n) for n in (1, 2, 3)]), 10.0)
    assert live.attained_s(14.0) == 12.0
    ends = [event(1, EventKind.ENDED, seq=4, ran_s=5.0), event(2, EventKind.KILLED, seq=5, ran_s=3.0)]
    am.world.reports.report(node_id(1), report(1, events=ends), 15.0)
    assert live.attained_s(16.0) == 5 + 3 + 6
    am.asks()
    am.gets(completed=[ended(1)])
    assert (len(live), live.attained_s(16.0), live.ended_s) == (3, 14.0, 5.0)
    kept = Snapshot()
    kept.take(am.attempt.whole_note() or {})
    restored = Attempt(am.attempt.id, coordinator(LATE, nodes=1))
    restored.restore(kept)
    assert restored.live.attained_s(16.0) == 14.0


def test_a_large_cluster_has_every_free_node_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample may have none of the few nodes with room."""
    monkeypatch.setattr(node_sampling, "MAX_SHOWN", 2)
    world = coordinator(LATE, nodes=40)
    for number in range(1, 41):
        busy(world, 8 if number != 17 else 6, 1.0, number)
    am = Master(world, 2)
    assert am.beats(1.0, row("*", 5)) == 2
    assert Counter(r.resource_name for r in granted_rows(am.sent.ask).values()) == {"host17": 2}


@pytest.mark.parametrize("dispatch", ["levels", "fair", "fifo", "las", "srpt", "hrrn"])
@pytest.mark.parametrize("seed", range(3))
def test_all_of_three_jobs_run_in_any_order(dispatch: str, seed: int) -> None:
    """Random asks over models of YARN and the sidecar's machines: all comes to rest, nothing goes guaranteed."""
    rng = Random(seed)
    run = Run({**LATE, "dispatch": {"policy": dispatch}}, ("YARN", "SPARK", "TEZ"), nodes=rng.choice([1, 2]), seed=seed)
    for _ in range(12):
        for am in run.ams:
            for _ in range(rng.randrange(4)):
                am.ask(Want(0, 20, (), (), 1024))
        run.round()
        assert all(not site.report().queue_length for site in run.sites.values()), "nothing waits at a node"
    run.settle()
    assert run.fallbacks == []
    assert all(attempt.table.sums.open_q == 0 for attempt in run.coordinator.attempts.values())
    assert len(run.coordinator.central) == 0


BY_JOB = {**LATE, "preempt": {"policy": "las", "settings": {"extra": 1, "by_job": True}}}


def shared_by(world: Coordinator, apps: list[int], now_s: float, number: int = 1, **more: Any) -> Ack:
    """Let a node of 8 cores and one place more report running containers of these applications, by number."""
    runs = [
        container_report(
            container_id=f"container_{TIMESTAMP}_{app:04d}_01_{100 * number + n:06d}",
            app_id=f"application_{TIMESTAMP}_{app:04d}",
            memory_mb=512,
        )
        for n, app in enumerate(apps)
    ]
    used = {"used_q_mb": 512 * len(apps), "used_q_vcores": len(apps), "slots": 9}
    return world.reports.report(node_id(number), report(number, containers=runs, **(used | more)), now_s)


def test_a_small_application_takes_one_place_beyond_the_cores_where_a_wide_one_runs() -> None:
    world = coordinator(BY_JOB, nodes=2)
    wide, small, other = Master(world, 2), Master(world, 3), Master(world, 4)
    for at_s in (0.9, 1.1):
        for number in (1, 2):
            shared_by(world, [2] * 8, at_s, number)
        wide.beats(1.0, row("*", 100))
        world.rounds.all_parts(1.0)
    assert wide.beats(2.0) == 0, "it is as wide as itself"
    assert small.beats(2.5, row("*", 3)) == 0, "30 s of work are level 1"
    assert other.beats(2.6, row("*", 2)) == 2, "one on each node"
    assert {world.nodes[node_id(n)].view.containers for n in (1, 2)} == {9}


def test_a_wide_application_pays_one_container_in_as_many_as_a_node_has_cores() -> None:
    world = coordinator(BY_JOB, nodes=4)
    wide, small, other = Master(world, 2), Master(world, 3), Master(world, 4)
    for at_s in (0.9, 1.1):
        for number in range(1, 5):
            shared_by(world, [2] * 5 + [5] * 3, at_s, number)
        wide.beats(1.0, row("*", 400))
        world.rounds.all_parts(1.0)
    assert small.beats(2.0, row("*", 5)) == 2, "20 of its containers run: of these 2 may be shrunk"
    assert other.beats(2.1, row("*", 5)) == 0
    for number in range(1, 5):
        shared_by(world, [2] * 6 + [5] * 2, 2.2, number)
    assert other.beats(3.1) == 1, "of 24 three"


def test_no_application_takes_a_place_beyond_the_cores_of_a_node_where_it_runs() -> None:
    world = coordinator(BY_JOB, nodes=2)
    wide, small = Master(world, 2), Master(world, 4)
    for at_s in (0.9, 1.1):
        shared_by(world, [2] * 7 + [4], at_s, 1)
        shared_by(world, [2] * 8, at_s, 2)
        wide.beats(1.0, row("*", 100))
        world.rounds.all_parts(1.0)
    assert small.beats(2.0, row("*", 2)) == 1, "one on the other node"
    assert [world.nodes[node_id(n)].view.containers for n in (1, 2)] == [8, 9]


def test_sidecars_know_what_jobs_attained_over_all_nodes_and_which_are_spared() -> None:
    world = coordinator(BY_JOB, nodes=2)
    wide, small = Master(world, 2), Master(world, 3)
    for job, containers in ((wide, 5), (small, 1)):
        for n in range(containers):
            proto = y.ContainerIdProto(id=n)
            live = HeldContainer(f"{job} {n}", proto, node_id(1), Kind.QUEUEABLE, 10, Resources(512, 1), 10.0, 0.0)
            live.start(0.0)
            job.attempt.live.add(live)
    world.rounds.all_parts(10.0)
    targets = shared_by(world, [2, 3], 10.0).targets
    assert targets is not None and targets.job_attained_s == {wide.attempt.app_id: 50.0, small.attempt.app_id: 10.0}
    assert targets.spared == []
    alone = shared_by(world, [2, 2], 10.1).targets
    assert alone is not None and alone.job_attained_s == {}, "there is no other job"
    for number, apps in ((1, [2] * 7 + [3]), (2, [3] * 8)):
        shared_by(world, apps, 10.2, number)
    wide.beats(10.3, row("*", 400))
    world.rounds.all_parts(11.0)
    shared_by(world, [2] * 7 + [3], 11.0)
    assert Master(world, 4).beats(11.1, row("*", 1)) == 1
    after = shared_by(world, [2] * 7 + [3, 4], 11.2).targets
    assert after is not None and after.spared == [wide.attempt.app_id]


def test_sidecars_hear_nothing_of_jobs_where_these_do_not_count() -> None:
    world = coordinator({**LATE, "preempt": {"policy": "las", "settings": {"extra": 1}}}, nodes=1)
    world.rounds.all_parts(1.0)
    targets = shared_by(world, [2, 3], 1.1).targets
    assert targets is not None and (targets.job_attained_s, targets.spared) == ({}, [])


# Groups


def queue(path: str, places: int, user_ratio: float = 1.0, leaf: bool = True) -> YarnQueue:
    size, most = Resources(1024 * places, places), Resources(1 << 20, 1 << 10)
    return YarnQueue(path, leaf, "RUNNING", most, Resources(), frozenset(), "", capacity=size, user_ratio=user_ratio)


QUEUES = [queue("root", 10, leaf=False), queue("root.default", 6, 0.5), queue("root.prod", 4)]


def crowded(queues: list[YarnQueue]) -> tuple[Coordinator, Master, Master, Master]:
    """Return a node of 8 cores that is full of Alice's containers; she, Bob and Carol (in `prod`) wait for more."""
    world = coordinator(LATE, nodes=1)
    world.inventory.update_queues(queues)
    world.inventory.charge(Master(world, 2, user="alice").attempt.id, Resources(8192, 8))
    busy(world, 8, 1.1)
    small = Master(world, 3, user="alice")
    bob, carol = Master(world, 4, user="bob"), Master(world, 5, user="carol", queue="prod")
    assert small.beats(1.2, row("*", 2)) == bob.beats(1.3, row("*", 20)) == 0
    return world, small, bob, carol


def test_the_share_of_a_user_goes_before_the_order_of_applications() -> None:
    world, small, bob, _ = crowded(QUEUES)
    busy(world, 5, 1.9)
    assert small.beats(2.0) == 0, "a small job of one who has more than her share"
    why = world.central.why(small.attempt.id, 2.0)
    assert why.endswith("; places kept for queue root.default, user bob")
    assert bob.beats(2.1) == 3


def test_a_loan_to_a_user_comes_back_to_another_queue_with_the_next_places() -> None:
    world, small, bob, carol = crowded(QUEUES)
    assert carol.beats(1.5, row("*", 2)) == 0
    busy(world, 5, 1.9)
    assert (small.beats(2.0), bob.beats(2.1), carol.beats(2.2)) == (0, 1, 2)


def test_users_share_nothing_where_the_resource_manager_gives_them_none() -> None:
    world, small, bob, _ = crowded([queue("root", 10, leaf=False), queue("root.default", 10)])
    busy(world, 5, 1.9)
    assert (bob.beats(2.0), small.beats(2.1)) == (1, 2)


def test_shares_survive_a_restart_of_the_proxy() -> None:
    """What attempts hold is restored; what waits is asked for again."""
    before = coordinator(LATE, nodes=1)
    before.inventory.update_queues(QUEUES)
    alice = Master(before, 2, user="alice")
    alice.attempt.on_registered(b"", 0.0)
    alice.beats(1.0, row("*", 8))
    alice.gets(*(container(n + 1, 1, r) for n, r in enumerate(granted_rows(alice.sent.ask).values())))
    kept = Snapshot()
    kept.take(alice.attempt.whole_note() or {})
    world = coordinator(LATE, nodes=1)
    world.inventory.update_queues(QUEUES)
    busy(world, 8, 1.0)
    world.takeover.restore(alice.attempt.id, kept)
    small, bob = Master(world, 3, user="alice"), Master(world, 4, user="bob")
    assert small.beats(1.2, row("*", 2)) == bob.beats(1.3, row("*", 20)) == 0
    busy(world, 6, 1.9)
    assert (small.beats(2.0), bob.beats(2.1)) == (0, 2)


def test_an_application_that_gets_its_places_at_once_enters_no_queue_while_nobody_else_waits() -> None:
    world = coordinator(LATE, nodes=1)
    alone = Master(world, 2)
    assert alone.beats(1.0, row("*", 8)) == 8 and world.central.idle
    late = Master(world, 3)
    assert late.beats(1.1, row("*", 2)) == 0 and not world.central.idle, "all cores are taken: it waits"
    turn = world.central.turn(late.attempt.id, 1.2)
    assert turn is not None and (turn.ask_count, turn.apps_before) == (2, 0)


def test_an_application_that_gets_some_of_its_places_waits_for_the_others_from_then_on() -> None:
    world = coordinator(LATE, nodes=1)
    wide, small = Master(world, 2), Master(world, 3)
    assert wide.beats(1.0, row("*", 30)) == 8
    turn = world.central.turn(wide.attempt.id, 1.0)
    assert turn is not None and (turn.ask_count, turn.waits_s) == (22, 0.0)
    assert small.beats(1.1, row("*", 2)) == 0
    turn = world.central.turn(small.attempt.id, 1.1)
    assert turn is not None and turn.ask_count == 2 and len(world.central) == 2
