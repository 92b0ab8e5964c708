"""Which running queueable containers become guaranteed."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.config.registry import Registry
from policies.model import AppView, ContainerView, Kind, QueueView, Resources

REGISTRY = Registry()
APP = AppView("application_1_1", "root.batch", "ann")
SIZE = Resources(1024, 1)


def running(started_s: float | None = 0.0, attained_s: float | None = None, expected_s: float = 60.0) -> ContainerView:
    return ContainerView(
        "c1", APP.id, Kind.QUEUEABLE, SIZE, started_s=started_s, attained_s=attained_s, expected_s=expected_s
    )


NOTHING, CAPACITY = Resources(), Resources(4096, 4)


def queue(used: Resources = NOTHING, capacity: Resources = CAPACITY) -> QueueView:
    return QueueView("root.batch", max_capacity=Resources(8192, 8), used_g=used, capacity=capacity)


def promote(name: str, one: ContainerView, of: QueueView, now_s: float, **chosen: object) -> str | None:
    bound = REGISTRY.bind("promote", name, chosen)
    answer: str | None = bound.decide(one, APP, of, bound.cfg, now_s)
    return answer


def test_none_promotes_nothing() -> None:
    assert promote("none", running(), queue(), 100) is None


def test_on_start_takes_what_runs_and_has_enough_left() -> None:
    assert promote("on_start", running(0, 2), queue(), 2) == (
        "on_start: it runs since 2.0 s, 58.0 s are expected to be left"
    )
    assert promote("on_start", running(None), queue(), 2) is None, "it waits"
    assert promote("on_start", running(0, 52, 60), queue(), 52) is None, "8 s are left"
    assert promote("on_start", running(0, 52, 60), queue(), 52, min_remaining_s=8) is not None
    assert promote("on_start", running(0, 4), queue(), 4.9, min_ran_s=5) is None
    assert promote("on_start", running(0, 4), queue(), 5, min_ran_s=5) is not None


def test_who_outlived_its_estimate_has_a_tenth_of_it_left() -> None:
    assert promote("on_start", running(0, 500, 120), queue(), 500) is not None
    assert promote("on_start", running(0, 500, 90), queue(), 500) is None


def test_one_that_stood_still_has_more_left_than_its_age_says() -> None:
    assert promote("on_start", running(0, 5, 60), queue(), 300) is not None


@pytest.mark.parametrize(
    ("used", "chosen", "promoted"),
    [
        (Resources(6144, 6), {}, True),  # 7168 of 7372 MB, 7 of 7.2 vcores
        (Resources(7168, 7), {}, False),
        (Resources(7168, 7), {"fill_ratio": 1}, True),
        (Resources(3072, 3), {"up_to": "capacity", "fill_ratio": 1}, True),
        (Resources(4096, 3), {"up_to": "capacity", "fill_ratio": 1}, False),
        (Resources(3072, 4), {"up_to": "capacity", "fill_ratio": 1}, False),
        (Resources(3072, 4), {"up_to": "capacity", "fill_ratio": 1, "count_vcores": False}, True),
    ],
)
def test_when_room_looks_at_the_queue(used: Resources, chosen: dict[str, object], promoted: bool) -> None:
    reason = promote("when_room", running(0, 10), queue(used), 10, **chosen)
    assert (reason is not None) == promoted
    assert reason is None or "ran 10.0 s; guaranteed containers of root.batch then use" in reason


def test_without_a_known_capacity_there_is_no_room() -> None:
    assert promote("when_room", running(0, 10), queue(capacity=Resources()), 10, up_to="capacity") is None


AMOUNT = st.builds(Resources, st.integers(0, 16_384), st.integers(0, 16))


@settings(deadline=None)
@given(AMOUNT, AMOUNT, st.floats(0, 500), st.floats(0.05, 1), st.sampled_from(["capacity", "max_capacity"]))
def test_when_room_never_fills_a_queue_beyond_its_share(
    used: Resources, capacity: Resources, now_s: float, fill_ratio: float, up_to: str
) -> None:
    of = queue(used, capacity)
    share = capacity if up_to == "capacity" else of.max_capacity
    reason = promote("when_room", running(0, 0), of, now_s, fill_ratio=fill_ratio, up_to=up_to)
    if reason is not None:
        assert (used + SIZE).fits(Resources(int(share.memory_mb * fill_ratio), share.vcores * fill_ratio + 1e-9))
    on_start = promote("on_start", running(0, 0), of, now_s)
    assert on_start is not None, "which leaves the room to the ResourceManager"


def test_token_looks_at_what_the_application_and_its_queue_have_left() -> None:
    def given(live_g: int, asked_g: int, used: int, **chosen: object) -> str | None:
        bound = REGISTRY.bind("promote", "token", {"job_tokens": 2, **chosen})
        app, of = replace(APP, live_g=live_g, asked_g=asked_g), queue(Resources(1024 * used, used))
        answer: str | None = bound.decide(running(0, 3), app, of, bound.cfg, 3)
        return answer

    assert given(0, 1, 0) == "token: it ran 3.0 s, and has a token now"
    assert given(1, 1, 0) is None and given(2, 0, 0) is None, "its application has two"
    assert given(2, 0, 0, job_tokens=0) is not None
    assert given(0, 0, 3) is not None and given(0, 0, 4) is None, "its queue is guaranteed four"
    assert given(0, 0, 4, queue_ratio=1.25) is not None
    assert promote("token", running(0, 55), queue(), 55) is None, "it is over in 5 s"
    assert promote("token", running(None), queue(), 5) is None, "it waits"
