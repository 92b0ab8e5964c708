"""The order of applications, and lines that look at their first alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver_lab.papers.algorithms.request_order import ORDERS, Order
from quicksilver_lab.papers.algorithms.requests import SIZES, Components, ResearchRequest, components, runtime, volume
from quicksilver_lab.papers.algorithms.tournament import Tournament


def request(number: int, arrived_s: float, runtime_s: float, many: int = 1, priority: int = 0) -> ResearchRequest:
    return ResearchRequest(number, arrived_s, runtime_s, Components(many), priority=priority)


def test_three_definitions_of_size() -> None:
    one = ResearchRequest(1, 0.0, 100.0, Components(2, 500, 512), Components(3, 2000, 4096))
    assert runtime(one) == 100
    assert components(one) == 500
    assert volume(one) == 100 * (2 * 0.5 * 0.5 + 3 * 2 * 4)
    assert volume(request(1, 0, 2, many=3)) == 6, "memory that is not counted is 1 GB"


def test_what_goes_first() -> None:
    early, short = request(1, 0.0, 100.0), request(2, 5.0, 10.0)
    assert Order("fifo").key(early, 9) < Order("fifo").key(short, 9)
    assert Order("sjf").key(short, 9) < Order("sjf").key(early, 9)
    assert Order("srpt").key(early, 9, share=0.05) < Order("srpt").key(short, 9)
    assert Order("sjf").key(short, 9, share=1.0) < Order("sjf").key(early, 9, share=0.05)
    assert Order("hrrn").key(early, 5.1) < Order("hrrn").key(short, 5.1) and Order("hrrn").key(short, 9) < Order(
        "hrrn"
    ).key(early, 9)
    for order in ORDERS:
        urgent = request(3, 9.0, 1000.0, priority=1)
        assert Order(order).key(urgent, 9) < min(Order(order).key(early, 9), Order(order).key(short, 9))


@pytest.mark.parametrize(("name", "size"), (("lifo", "1d"), ("sjf", "4d")))
def test_orders_that_are_none(name: str, size: str) -> None:
    with pytest.raises(ValueError, match="choose one of fifo, sjf, srpt, hrrn by 1d, 2d, 3d"):
        Order(name, size)


@given(
    st.sampled_from(ORDERS),
    st.sampled_from(tuple(SIZES)),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20), st.integers(1, 4), st.integers(0, 2)), max_size=60),
)
def test_a_line_gives_out_whom_the_keys_name(order: str, size: str, script: list[tuple[int, int, int, int]]) -> None:
    """Each step: seconds that pass, runtime, components (0 s pass: one leaves instead), priority."""
    ours = Order(order, size)
    line, waiting, now_s = ours.line(), list[ResearchRequest](), 0.0
    for number, (passed_s, runtime_s, many, priority) in enumerate(script):
        now_s += passed_s
        if passed_s == 0 and waiting:
            first = min(waiting, key=lambda r: ours.key(r, now_s))
            assert line.head(now_s) == first
            assert line.pop(now_s) == first
            waiting.remove(first)
        else:
            one = request(number, now_s, runtime_s, many, priority)
            waiting.append(one)
            line.push(one)
        assert len(line) == len(waiting)
    while waiting:
        now_s += 7
        first = min(waiting, key=lambda r: ours.key(r, now_s))
        assert line.pop(now_s) == first
        waiting.remove(first)
    with pytest.raises(IndexError):
        line.head(now_s)


def test_a_tournament_replays_only_what_expired() -> None:
    """Two lines that never cross again are not looked at again."""
    tournament = Tournament[str]()
    tournament.push("long", 0.0, 100.0, 1)
    tournament.push("short", 50.0, 10.0, 2)
    assert tournament.head(51.0) == "long"
    assert tournament.head(55.4) == "long", "0.554 against 0.54"
    assert tournament.head(55.6) == "short", "0.556 against 0.56"
    assert tournament._until_s[1] == float("inf")
