"""Admission of applications: each discipline as a playbook; then what always holds, and the algorithm as printed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver_lab.papers.algorithms.admission import NeverFitsError, ResearchRoom
from quicksilver_lab.papers.algorithms.flexible import Flexible
from quicksilver_lab.papers.algorithms.malleable import Malleable
from quicksilver_lab.papers.algorithms.preemptive import Preemptive
from quicksilver_lab.papers.algorithms.request_order import Order
from quicksilver_lab.papers.algorithms.requests import Components, ResearchRequest
from quicksilver_lab.papers.algorithms.rigid import Rigid

ROOM = ResearchRoom(10_000)
FIFO = Order("fifo")
MACHINES: tuple[type[Rigid | Malleable | Flexible], ...] = (Rigid, Malleable, Flexible, Preemptive)


def request(
    number: int, core: int, elastic: int, runtime_s: float = 10.0, priority: int = 0, at_s: float = 0.0
) -> ResearchRequest:
    return ResearchRequest(number, at_s, runtime_s, Components(core), Components(elastic), priority)


A, B, C, D = (request(number, 3, elastic) for number, elastic in enumerate((4, 3, 5, 2)))


def play(
    machine: Rigid | Malleable | Flexible, *steps: tuple[list[ResearchRequest] | int, float, dict[int, int]]
) -> None:
    for what, now_s, expected in steps:
        grants = machine.depart(what, now_s) if isinstance(what, int) else machine.arrive(what, now_s)
        assert {grant.id: grant.elastic for grant in grants} == expected
        assert len(grants) == len(expected)


def test_rigid_serves_one_after_the_other() -> None:
    play(Rigid(ROOM, FIFO), ([A, B, C, D], 0, {0: 4}), (0, 10, {1: 3}), (1, 20, {2: 5}), (2, 30, {3: 2}), (3, 40, {}))


def test_malleable_feeds_those_in_service_and_takes_nothing_back() -> None:
    """Figure 1, middle: while C has 8 units, the two that are left are too few for D."""
    machine = Malleable(ROOM, FIFO)
    play(machine, ([A, B, C, D], 0, {0: 4, 1: 0}), (0, 10, {1: 3, 2: 1}), (1, 17.5, {2: 5}))
    assert machine.waiting == 1
    play(machine, (2, 25, {3: 2}), (3, 35, {}))


def test_flexible_takes_one_unit_of_c_for_the_core_of_d() -> None:
    """Figure 1, bottom."""
    play(
        Flexible(ROOM, FIFO),
        ([A, B, C, D], 0, {0: 4, 1: 0}),
        (0, 10, {1: 3, 2: 1}),
        (1, 17.5, {2: 4, 3: 0}),
        (2, 26.5, {3: 2}),
        (3, 33.5, {}),
    )


def test_who_wants_everything_holds_up_a_small_one_under_flexible_alone() -> None:
    """Algorithm 1, line 8: while those in service want more than there is nobody is let in, however small."""
    large, larger, small = request(0, 1, 6, 100), request(1, 1, 7, 200), request(2, 2, 0, 1)
    sjf = Order("sjf")
    play(Rigid(ROOM, sjf), ([large, larger], 0, {0: 6}), ([small], 1, {2: 0}), (2, 2, {}), (0, 100, {1: 7}))
    play(Flexible(ROOM, sjf), ([large, larger], 0, {0: 6, 1: 2}), ([small], 1, {}), (0, 100, {1: 7, 2: 0}))


def test_flexible_takes_elastic_components_back_for_the_core_of_the_next() -> None:
    machine = Flexible(ROOM, FIFO)
    play(
        machine,
        ([request(0, 1, 0), request(1, 1, 7)], 0, {0: 0, 1: 7}),
        ([request(2, 8, 0)], 1, {}),
        (0, 2, {1: 1, 2: 0}),
        (2, 3, {1: 7}),
    )


def test_flexible_arrivals_take_nothing_from_those_in_service() -> None:
    machine = Flexible(ROOM, FIFO)
    play(machine, ([A], 0, {0: 4}), ([request(5, 4, 0)], 1, {}), ([request(6, 1, 0)], 2, {}))
    assert machine.waiting == 2
    play(machine, (0, 10, {5: 0, 6: 0}))


def test_flexible_keeps_the_order_among_those_in_service() -> None:
    machine = Flexible(ROOM, Order("sjf"))
    play(machine, ([request(0, 2, 5, runtime_s=9)], 0, {0: 5}), ([request(1, 2, 5, runtime_s=5)], 1, {1: 5, 0: 1}))


def test_an_urgent_one_takes_elastic_components_at_once() -> None:
    urgent = request(7, 5, 1, priority=1, at_s=5)
    play(Preemptive(ROOM, FIFO), ([A, B], 0, {0: 4, 1: 0}), ([urgent], 5, {}), (0, 10, {7: 1, 1: 1}), (7, 11, {1: 3}))
    play(Preemptive(ROOM, FIFO), ([A, B], 0, {0: 4, 1: 0}), ([request(8, 4, 1, priority=1, at_s=5)], 5, {8: 0, 0: 0}))


def test_who_waits_as_urgent_goes_before_the_line() -> None:
    machine = Preemptive(ROOM, FIFO)
    play(machine, ([request(0, 6, 4)], 0, {0: 4}), ([request(1, 1, 0), request(2, 5, 0, priority=1)], 1, {}))
    assert machine.waiting == 2
    play(machine, (0, 2, {2: 0, 1: 0}))


def test_the_last_in_service_is_judged_by_what_it_has_left() -> None:
    """SRPT: 10 s, of which nearly all are done, are less than 5 s."""
    left = {0: 1.0}
    machine = Preemptive(ROOM, Order("srpt"), left.__getitem__)
    play(machine, ([request(0, 3, 7)], 0, {0: 7}))
    left[0] = 0.2
    play(machine, ([request(1, 3, 0, runtime_s=5, at_s=8)], 8, {}))
    left[0] = 0.9
    play(machine, ([request(2, 3, 0, runtime_s=4, at_s=8)], 8, {2: 0, 0: 4}))


@pytest.mark.parametrize("machine", MACHINES)
def test_what_never_fits_is_refused_and_nothing_is_taken_in(machine: type[Rigid | Malleable | Flexible]) -> None:
    desk = machine(ResearchRoom(10_000, 4096), FIFO)
    too_much = ResearchRequest(3, 0.0, 1.0, Components(2, 1000, 4000))
    with pytest.raises(
        NeverFitsError, match="application 3 needs 2 cores and 8000 MB at once, the cluster has 10 cores"
    ):
        desk.arrive([A, too_much], 0.0)
    assert (desk.waiting, len(desk.serving)) == (0, 0)
    with pytest.raises(KeyError):
        desk.depart(0, 1.0)


def test_only_rigid_refuses_what_fits_without_its_elastic_components() -> None:
    play(Flexible(ROOM, FIFO), ([request(0, 3, 40)], 0, {0: 7}))
    play(Malleable(ROOM, FIFO), ([request(0, 3, 40)], 0, {0: 7}))
    with pytest.raises(NeverFitsError, match="needs 43 cores"):
        Rigid(ROOM, FIFO).arrive([request(0, 3, 40)], 0)


@pytest.mark.parametrize("bad", ({"count": -1}, {"count": 1, "millicores": 0}, {"count": 1, "memory_mb": -1}))
def test_components_that_cannot_be(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="millicores 1 or more"):
        Components(**bad)


def test_requests_and_rooms_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="application 1: 0 core components"):
        request(1, 0, 3)
    with pytest.raises(ValueError, match="more than 0 s"):
        request(1, 1, 3, runtime_s=0.0)
    with pytest.raises(ValueError, match="nothing to share"):
        Rigid(ResearchRoom(0), FIFO)


def components() -> st.SearchStrategy[Components]:
    return st.builds(Components, st.integers(0, 6), st.integers(1, 3000), st.integers(0, 1500))


def requests() -> st.SearchStrategy[tuple[float, Components, Components, int]]:
    core = components().filter(lambda c: 0 < c.count * c.millicores <= 9000 and c.count * c.memory_mb <= 4000)
    return st.tuples(st.floats(0.5, 50), core, components(), st.integers(0, 1))


def cascade_as_printed(machine: Flexible) -> dict[int, int]:
    """Algorithm 1, lines 14 to 21, with two resources."""
    millicores = machine.room.millicores - sum(s.request.core_millicores for s in machine.cascade.members)
    memory_mb = machine.room.memory_mb - sum(s.request.core_mb for s in machine.cascade.members)
    granted = {}
    for served in machine.cascade.members:
        elastic = served.request.elastic
        many = granted[served.request.id] = elastic.fitting(millicores, memory_mb)
        millicores -= many * elastic.millicores
        memory_mb -= many * elastic.memory_mb
    return granted


def check(machine: Rigid | Malleable | Flexible, told: dict[int, int]) -> None:
    """Never more than there is, cores first; what was told is what is; nothing that somebody could use is unused."""
    assert told == {number: served.granted for number, served in machine.serving.items()}
    those = [(s.request, s.granted) for s in machine.serving.values()]
    free = machine.room.millicores - sum(r.core_millicores + n * r.elastic.millicores for r, n in those)
    free_mb = machine.room.memory_mb - sum(r.core_mb + n * r.elastic.memory_mb for r, n in those)
    assert free >= 0 and free_mb >= 0
    assert all(0 <= n <= r.elastic.count for r, n in those)
    if isinstance(machine, Rigid):
        assert all(n == r.elastic.count for r, n in those)
        return
    assert not any(n < r.elastic.count and r.elastic.fitting(free, free_mb) for r, n in those)
    if isinstance(machine, Flexible):
        assert told == cascade_as_printed(machine)
        keys = [machine._key(served) for served in machine.cascade.members]
        assert keys == sorted(keys)
    elif machine.waiting:
        head = machine.line.head(1e9)
        assert head.core_millicores > free or head.core_mb > free_mb


@given(
    st.sampled_from(MACHINES),
    st.sampled_from(("fifo", "sjf", "srpt", "hrrn")),
    st.sampled_from(("1d", "2d", "3d")),
    st.lists(st.one_of(requests(), st.integers(0, 9)), max_size=60),
)
def test_what_always_holds(
    kind: type[Rigid | Malleable | Flexible],
    order: str,
    size: str,
    script: list[tuple[float, Components, Components, int] | int],
) -> None:
    machine = kind(ResearchRoom(10_000, 5000), Order(order, size))
    told: dict[int, int] = {}
    arrived, now_s = 0, 0.0
    for step in script:
        now_s += 1.0
        if isinstance(step, int):
            if not machine.serving:
                continue
            number = list(machine.serving)[step % len(machine.serving)]
            del told[number]
            grants = machine.depart(number, now_s)
        else:
            runtime_s, core, elastic, priority = step
            one = ResearchRequest(arrived, now_s, runtime_s, core, elastic, priority)
            if kind is Rigid and (one.whole_millicores > 10_000 or one.whole_mb > 5000):
                continue
            arrived += 1
            grants = machine.arrive([one], now_s)
        told |= {grant.id: grant.elastic for grant in grants}
        check(machine, told)
    assert machine.waiting == 0 or machine.serving
    while machine.serving:
        machine.depart(next(iter(machine.serving)), now_s)
    assert machine.waiting == 0
    assert (machine.free_millicores, machine.free_mb) == (10_000, 5000)
