"""Tokens of applications and YARN queues: which containers have a token, which are opportunistic, which wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.admission import Admission, Standing
from policies.config.registry import Registry
from policies.model import AppView, Ask, QueueView, Resources

REGISTRY = Registry()
ONE = Resources(1024, 1)
TOKEN = Admission(Standing.REGULAR, "tokens: has a token")
UNKNOWN = QueueView("root.a")


def within(count: int) -> Admission:
    return Admission(Standing.OPPORTUNISTIC, f"tokens: opportunistic, within its allowance of {count}")


def beyond(count: int) -> Admission:
    return Admission(Standing.WAITS, f"tokens: waits: beyond its allowance of {count}")


def times(count: int) -> Resources:
    return Resources(1024 * count, count)


def app(live_g: int = 0, asked_g: int = 0, live_q: int = 0) -> AppView:
    return AppView("a", "root.a", live_g=live_g, asked_g=asked_g, asked_g_size=times(asked_g), live_q=live_q)


def queue(used: int, capacity: int = 4) -> QueueView:
    return QueueView("root.a", used_g=times(used), capacity=times(capacity))


def admit(of: AppView, where: QueueView, name: str = "tokens", **chosen: object) -> Admission | None:
    bound = REGISTRY.bind("admit", name, chosen)
    answer: Admission | None = bound.decide(Ask(of, 20, ONE), where, bound.cfg)
    return answer


def test_none_leaves_it_to_the_route() -> None:
    assert admit(app(live_g=100, live_q=100), queue(4), "none") is None


@pytest.mark.parametrize(
    ("of", "ratio", "answer"),
    [
        (app(), 1, TOKEN),
        (app(live_g=1), 1, TOKEN),
        (app(live_g=1, asked_g=1), 1, within(2)),
        (app(live_g=2, live_q=1), 1, within(2)),
        (app(live_g=2, live_q=2), 1, beyond(2)),
        (app(live_g=5, live_q=2), 1, beyond(2)),
        (app(live_g=2, live_q=2), 1.5, within(3)),
        (app(live_g=2), 0, beyond(0)),
        (app(live_g=2), 0.4, beyond(0)),
    ],
)
def test_the_tokens_of_an_application(of: AppView, ratio: float, answer: Admission) -> None:
    assert admit(of, UNKNOWN, job_tokens=2, allowance_ratio=ratio) == answer


@pytest.mark.parametrize(
    ("used", "asked", "ratio", "free"),
    [
        (3, 0, 1.0, True),
        (4, 0, 1.0, False),
        (2, 2, 1.0, False),
        (2, 1, 1.0, True),
        (2, 0, 0.5, False),
        (1, 0, 0.5, True),
        (7, 0, 2.0, True),
        (99, 0, float("inf"), True),
    ],
)
def test_the_tokens_of_a_queue_are_what_guaranteed_containers_leave(
    used: int, asked: int, ratio: float, free: bool
) -> None:
    assert (admit(app(asked_g=asked), queue(used), queue_ratio=ratio) == TOKEN) == free


def test_a_queue_counts_vcores_beside_memory_unless_told_otherwise() -> None:
    many_cores = QueueView("root.a", used_g=Resources(1024, 4), capacity=times(4))
    assert admit(app(), many_cores) == within(1)
    assert admit(app(), many_cores, count_vcores=False) == TOKEN


def test_without_a_number_the_allowance_goes_by_the_tokens_in_use() -> None:
    assert admit(app(live_g=2, asked_g=1, live_q=2), queue(4)) == within(3)
    assert admit(app(live_q=0), queue(4)) == within(1), "one that has no token yet may begin"
    assert admit(app(live_q=1), queue(4)) == beyond(1)


@given(
    st.integers(1, 6),
    st.floats(0, 3),
    st.lists(st.sampled_from(["ask", "end g", "end q"]), max_size=60),
    st.integers(1, 12),
)
def test_nobody_ever_has_more_than_tokens_and_allowance(
    tokens: int, ratio: float, steps: list[str], capacity: int
) -> None:
    g = q = waiting = 0
    for step in steps:
        waiting += step == "ask"
        g -= step == "end g" and g > 0
        q -= step == "end q" and q > 0
        stuck = False
        while waiting and not stuck:
            answer = admit(app(live_g=g, live_q=q), queue(g, capacity), job_tokens=tokens, allowance_ratio=ratio)
            assert answer is not None
            g += answer.standing is Standing.REGULAR
            q += answer.standing is Standing.OPPORTUNISTIC
            stuck = answer.standing is Standing.WAITS
            waiting -= not stuck
        assert g <= min(tokens, capacity) and q <= ratio * tokens
        assert not waiting or (g == min(tokens, capacity) and q == int(ratio * tokens)), "no token stays unused"
