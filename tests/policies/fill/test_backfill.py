"""Who may use room that the first of the queue does not fit into."""

from __future__ import annotations

import pytest

from policies.config.registry import Registry
from policies.model import ContainerView, Gap, Kind, Resources

REGISTRY = Registry()


def container(name: str, expected_s: float, **more: object) -> ContainerView:
    return ContainerView(name, "app", Kind.QUEUEABLE, Resources(1024, 1), expected_s=expected_s, **more)  # type: ignore[arg-type]


def fills(
    expected_s: float, delay_s: float, *, bypassed_s: float = 0.0, name: str = "backfill", **chosen: float
) -> bool:
    """Return whether a container of this duration may start before one of 10 s."""
    bound = REGISTRY.bind("fill", name, chosen)
    gap = Gap(container("head", 10.0, bypassed_s=bypassed_s), 30.0, delay_s)
    answer = bound.decide(container("small", expected_s), gap, bound.cfg)
    assert isinstance(answer, bool)
    return answer


def test_only_where_nobody_is_delayed() -> None:
    assert fills(20.0, 0.0)
    assert fills(20.0, -3.0), "others start sooner"
    assert not fills(20.0, 0.1)
    assert not fills(20.0, 0.0, name="none")


def test_a_delay_may_be_allowed() -> None:
    assert fills(20.0, 2.0, delay_ratio=0.1)
    assert not fills(20.0, 2.1, delay_ratio=0.1)


@pytest.mark.parametrize(("bypassed_s", "may"), [(0.0, True), (30.0, True), (30.1, False)])
def test_the_first_of_the_queue_is_overtaken_by_five_times_its_work_at_most(bypassed_s: float, may: bool) -> None:
    assert fills(20.0, 0.0, bypassed_s=bypassed_s) is may
    assert fills(20.0, 0.0, bypassed_s=bypassed_s, bypass_limit_s=1000.0)
