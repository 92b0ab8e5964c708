"""Deferred correction as in Apollo (OSDI '14, §3.4): its triggers, its straggler nodes, and when nothing moves."""

from hypothesis import given
from hypothesis import strategies as st

from policies.correct.apollo import Apollo, correct, slowness, worth
from policies.model import ContainerView, Kind, NodeQueue, NodeView, Resources

CFG = Apollo()
NOW_S = 1000.0


def waiting(left_s: float | None = 60.0, elapsed_s: float = 10.0, **more: float | None) -> ContainerView:
    view = ContainerView("c", "app", Kind.QUEUEABLE, Resources(1024, 1), arrived_s=NOW_S - elapsed_s)
    known = {"starts_in_s": left_s, **more}
    return ContainerView(**{name: getattr(view, name) for name in view.__slots__} | known)


def running(ran_s: float, expected_s: float = 10.0) -> ContainerView:
    size = Resources(1024, 1)
    return ContainerView("r", "app", Kind.QUEUEABLE, size, started_s=NOW_S - ran_s, expected_s=expected_s)


def why(view: ContainerView, best_s: float = 0.0, *runs: ContainerView, cfg: Apollo = CFG) -> str:
    return correct(view, NodeQueue(NodeView("here:1"), runs), NodeView("best:1", queued_s=best_s), cfg, NOW_S) or ""


def test_i_the_expected_wait_is_significantly_higher_than_when_placed() -> None:
    assert why(waiting(60.0, 10.0, placed_wait_s=30.0)).startswith(
        "its wait grew from 30.0 s, as expected when placed, to 70.0 s"
    )
    assert not why(waiting(20.0, 10.0, placed_wait_s=30.0)), "it is what was expected"
    assert not why(waiting(40.0, 10.0, placed_wait_s=30.0)), "higher, but not significantly"
    assert why(waiting(20.0, 0.0, placed_wait_s=0.0)), "it was to start at once"
    assert not why(waiting(4.0, 0.0, placed_wait_s=0.0)), "seconds are no reason to move"


def test_ii_the_expected_wait_is_above_the_average_of_its_stage() -> None:
    assert "is above its stage's average of 40.0 s" in why(waiting(31.0, 10.0, stage_wait_s=40.0))
    assert not why(waiting(29.0, 10.0, stage_wait_s=40.0))


def test_iii_the_elapsed_wait_is_above_the_average_of_its_stage() -> None:
    tolerant = Apollo(average_ratio=100.0)
    assert "has waited 41.0 s, above its stage's average of 40.0 s" in why(
        waiting(60.0, 41.0, stage_wait_s=40.0), cfg=tolerant
    )
    assert not why(waiting(60.0, 39.0, stage_wait_s=40.0), cfg=tolerant)


def test_a_slow_node() -> None:
    """Two of three run over twice what was expected; what waits behind them waits as much longer."""
    slow = [running(50.0), running(30.0), running(2.0)]
    assert slowness(NodeQueue(NodeView("n:1"), tuple(slow)), CFG, NOW_S) == 4.0
    assert why(waiting(10.0), 0.0, *slow).startswith("its node is slow: what runs there is 4.0 times over")
    assert "it would wait 40.0 s more here" in why(waiting(10.0), 0.0, *slow)
    assert not why(waiting(10.0), 0.0, running(50.0), running(2.0), running(2.0)), "one of three is a straggler"
    assert not why(waiting(10.0), 0.0, running(19.0))
    assert slowness(NodeQueue(NodeView("n:1"), (running(50.0, 0.0),)), CFG, NOW_S) == 1.0, "nothing was expected of it"
    assert not why(waiting(10.0), 0.0)


def test_it_stays_where_the_better_node_is_not_much_better() -> None:
    grown = waiting(60.0, 10.0, placed_wait_s=0.0)
    assert why(grown, 30.0) and not why(grown, 31.0)
    assert not why(grown, 90.0)
    assert not why(waiting(8.0, 10.0, placed_wait_s=0.0), 3.5), "moving takes some seconds itself"
    assert not why(waiting(None, 100.0, placed_wait_s=0.0)), "nobody knows when it starts"


@given(
    st.floats(0, 1e4),
    st.floats(0, 1e4),
    st.none() | st.floats(0, 1e4),
    st.none() | st.floats(0, 1e4),
    st.floats(0, 1e4),
    st.lists(st.floats(0, 1e4), max_size=4),
)
def test_it_moves_only_to_wait_less_and_never_without_a_reason(
    left_s: float, elapsed_s: float, placed_s: float | None, stage_s: float | None, best_s: float, ran: list[float]
) -> None:
    runs = tuple(map(running, ran))
    slow = slowness(NodeQueue(NodeView("n:1"), runs), CFG, NOW_S)
    told = why(waiting(left_s, elapsed_s, placed_wait_s=placed_s, stage_wait_s=stage_s), best_s, *runs)
    if told:
        assert best_s < left_s * slow
        assert placed_s is not None or stage_s is not None or slow > 1


@given(st.floats(0, 1e4), st.floats(0, 1e4), st.floats(0, 1e4))
def test_whoever_waits_longer_gains_by_moving_where_another_does(left_s: float, more_s: float, best_s: float) -> None:
    assert worth(left_s + more_s, best_s, CFG) or not worth(left_s, best_s, CFG)
