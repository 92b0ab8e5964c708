"""Admission of whole applications: the paper's example, equality with the simulator's machines, limits of queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.admission import Standing
from policies.admit import flexible, malleable, preemptive, rigid
from policies.common.app_admission import AppAdmission, standing
from policies.common.request_order import RequestOrder
from policies.config.registry import Registry
from policies.model import AppView, Ask, Portion, QueueView, Resources
from policies.requests import AppRequest, Containers, Room
from quicksilver_lab.papers.algorithms.admission import ResearchRoom as VirtualRoom
from quicksilver_lab.papers.algorithms.flexible import Flexible
from quicksilver_lab.papers.algorithms.malleable import Malleable
from quicksilver_lab.papers.algorithms.request_order import Order
from quicksilver_lab.papers.algorithms.requests import Components, ResearchRequest
from quicksilver_lab.papers.algorithms.rigid import Rigid
from tests.examples import of_share

ONE = Resources(1024, 1)
MODULES = {"flexible": flexible, "malleable": malleable, "rigid": rigid, "preemptive": preemptive}
MACHINES: Mapping[str, Callable[..., Any]] = {"flexible": Flexible, "malleable": Malleable, "rigid": Rigid}


def request(name: str, core: int, elastic: int = 0, arrived_s: float = 0.0, **other: Any) -> AppRequest:
    parts = (Containers(11, ONE, elastic),) if elastic else ()
    return AppRequest(name, ("queue root.a", "queue root"), arrived_s, (Containers(10, ONE, core),), parts, **other)


def room(units: int, **limits: int) -> Room:
    named = {f"queue {name.replace('_', '.')}": Resources(1024 * n, n) for name, n in limits.items()}
    return Room(Resources(1024 * units, units), named)


@dataclass
class Cluster:
    """Applications that come and go under one policy."""

    policy: str
    room: Room
    cfg: AppAdmission = field(default_factory=AppAdmission)
    requests: dict[str, AppRequest] = field(default_factory=dict)
    waits: Mapping[str, str] = field(default_factory=dict)

    def decide(self, freed: bool, now_s: float) -> dict[str, int]:
        answer = MODULES[self.policy].assign(list(self.requests.values()), self.room, self.cfg, freed, now_s)
        self.waits = answer.waits
        for name, share in answer.shares.items():
            before = self.requests[name]
            entered_s = now_s if before.entered_s is None else before.entered_s
            self.requests[name] = replace(before, entered_s=entered_s, granted=dict(share))
        assert answer.shares.keys() | answer.waits.keys() == self.requests.keys(), "each runs, or knows why it waits"
        return {name: sum(share.values()) for name, share in answer.shares.items()}

    def come(self, *requests: AppRequest, now_s: float = 0.0) -> dict[str, int]:
        self.requests |= {each.id: each for each in requests}
        return self.decide(False, now_s)

    def go(self, name: str, now_s: float = 1.0) -> dict[str, int]:
        del self.requests[name]
        return self.decide(True, now_s)


def test_the_papers_figure_1_under_flexible() -> None:
    cluster = Cluster("flexible", room(10))
    four = [request("a", 3, 5), request("b", 3, 3, 0.1), request("c", 3, 5, 0.2), request("d", 3, 2, 0.3)]
    assert cluster.come(*four) == {"a": 4, "b": 0}, "b is served beside a, which gives one up"
    assert cluster.go("a") == {"b": 3, "c": 1}
    assert cluster.go("b") == {"c": 4, "d": 0}, "c gives one up for the core of d"
    assert cluster.go("c") == {"d": 2}


def test_rigid_serves_one_at_a_time_and_malleable_takes_nothing_back() -> None:
    four = [request("a", 3, 5), request("b", 3, 3, 0.1), request("c", 3, 5, 0.2), request("d", 3, 2, 0.3)]
    one = Cluster("rigid", room(10))
    assert one.come(*four) == {"a": 5}
    assert one.go("a") == {"b": 3}
    other = Cluster("malleable", room(10))
    assert other.come(*four) == {"a": 5}
    assert other.go("a") == {"b": 3, "c": 1}
    assert other.go("b") == {"c": 5}, "d waits: c keeps what it has"
    assert "d" in other.waits


def test_an_arrival_takes_nothing_from_those_in_service() -> None:
    cluster = Cluster("flexible", room(10))
    assert cluster.come(request("a", 2, 6)) == {"a": 6}
    assert cluster.come(request("b", 3, 0, 1.0)) == {"a": 6}, "2 are unused, and nobody left"
    assert cluster.waits["b"].startswith("it is next; 3072 MB and 3 vcores are wanted at once, 2048 MB and 2 vcores")
    assert cluster.come(request("c", 2, 0, 2.0)) == {"a": 6}, "the first of the line holds it up"


def test_an_urgent_one_takes_from_elastic_ones_at_once() -> None:
    cluster = Cluster("preemptive", room(10))
    assert cluster.come(request("a", 3, 7)) == {"a": 7}
    assert cluster.come(request("b", 3, 0, 1.0)) == {"a": 7}
    assert cluster.come(request("now", 4, 2, 2.0, priority=1)) == {"now": 2, "a": 1}
    assert cluster.come(request("big", 5, 0, 3.0, priority=2)) == {"now": 2, "a": 1}, "5 are not left beside cores"
    assert cluster.go("now") == {"big": 0, "a": 2}, "the urgent one goes first, b still waits"


def test_one_that_can_never_fit_holds_nobody_up() -> None:
    cluster = Cluster("flexible", room(10))
    assert cluster.come(request("huge", 11), request("b", 3, 0, 1.0)) == {"b": 0}
    expected = "it needs 11264 MB and 11 vcores at once, and there are 10240 MB and 10 vcores in all: make the"
    assert cluster.waits["huge"].startswith(expected)


def test_a_full_queue_holds_up_itself_alone() -> None:
    cluster = Cluster("flexible", room(10, root_a=4))
    other = replace(request("c", 3, 2, 2.0), limits=("queue root.b", "queue root"))
    assert cluster.come(request("a", 3, 5), request("b", 3, 0, 1.0), other) == {"a": 1, "c": 2}
    assert cluster.waits["b"] == "queue root.a has no room for 3072 MB and 3 vcores"


def test_memory_alone_counts_where_it_is_said() -> None:
    cluster = Cluster("flexible", room(10), AppAdmission(count="memory"))
    cluster.room = Room(Resources(10 * 1024, 1))
    assert cluster.come(request("a", 3, 5)) == {"a": 5}


@pytest.mark.parametrize(("order", "first"), [("fifo", "long"), ("sjf", "short"), ("srpt", "short"), ("hrrn", "long")])
def test_orders(order: RequestOrder, first: str) -> None:
    cluster = Cluster("rigid", room(3), AppAdmission(order=RequestOrder(order)))
    cluster.come(request("runs", 3))
    cluster.come(request("long", 3, runtime_s=100.0), request("short", 3, 0, 999.0, runtime_s=10.0), now_s=1000.0)
    assert set(cluster.go("runs", 1000.0)) == {first}


@pytest.mark.parametrize(
    ("portion", "expected"),
    [
        (None, None),
        (Portion(False, why="it is next"), Standing.WAITS),
        (Portion(True, 1, 0), Standing.REGULAR),
        (Portion(True, 0, 2), Standing.OPPORTUNISTIC),
        (Portion(True, 0, 0), Standing.WAITS),
    ],
)
def test_what_a_container_may_be(portion: Portion | None, expected: Standing | None) -> None:
    ask = Ask(AppView("a"), 10, ONE, portion=portion)
    answer = standing(ask, QueueView("root.a"), AppAdmission())
    assert (answer.standing if answer is not None else None) is expected


def test_core_by_type_and_queue() -> None:
    cfg = AppAdmission()
    kinds = ("MAPREDUCE", "Spark", "APACHE FLINK", "YARN")
    assert [cfg.core_of(kind, "root.a") for kind in kinds] == [1, "initial", "initial", "all"]
    bound = Registry().bind("admit", "flexible", {"core": [{"queue": "root.ml*", "core": 4}, {"core": "all"}]})
    assert isinstance(bound.cfg, AppAdmission)
    assert [bound.cfg.core_of("SPARK", queue) for queue in ("root.ml.x", "root.b")] == [4, "all"]


def steps(seed: int, count: int) -> Iterator[tuple[str, AppRequest, ResearchRequest]]:
    rng = Random(seed)
    for number in range(count):
        core, elastic, runtime_s = rng.randint(1, 6), rng.choice((0, rng.randint(1, 9))), float(rng.randint(1, 50))
        own = request(f"{number:04}", core, elastic, float(number), runtime_s=runtime_s)
        virtual = ResearchRequest(
            number, float(number), runtime_s, Components(core, 1000, 1024), Components(elastic, 1000, 1024)
        )
        yield own.id, own, virtual


@settings(max_examples=of_share(60), deadline=None)
@given(
    policy=st.sampled_from(sorted(MACHINES)),
    order=st.sampled_from(["fifo", "sjf"]),
    seed=st.integers(0, 10_000),
    departures=st.lists(st.integers(0, 9), max_size=60),
)
def test_decides_as_the_simulators_machines(policy: str, order: str, seed: int, departures: Sequence[int]) -> None:
    cluster = Cluster(policy, room(16), AppAdmission(order=RequestOrder(order)))
    machine = MACHINES[policy](VirtualRoom(16_000, 16 * 1024), Order(order))
    granted: dict[str, int] = {}
    coming = steps(seed, len(departures) + 5)

    def compare(own: dict[str, int], changes: Sequence[Any], now_s: float) -> None:
        granted.update({f"{each.id:04}": each.elastic for each in changes})
        assert own == granted, (now_s, own, granted)

    for now_s, draw in enumerate([10] * 5 + list(departures)):
        running = sorted(granted)
        if draw == 10 or draw >= len(running):
            _, own, virtual = next(coming)
            compare(cluster.come(own, now_s=float(now_s)), machine.arrive([virtual], float(now_s)), now_s)
        else:
            gone = running[draw]
            del granted[gone]
            compare(cluster.go(gone, float(now_s)), machine.depart(int(gone), float(now_s)), now_s)
