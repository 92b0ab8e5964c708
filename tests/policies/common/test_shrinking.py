"""The policies that preempt without killing: their settings, and who is killed when memory leaves no other way."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.common.shrinking import Shrinking
from policies.common.shrinking import victims as shrinking_victims
from policies.common.victims import Victims
from policies.config.registry import Registry
from policies.errors import SettingsMistakesError
from policies.model import ContainerView, Kind, Resources, Way

NAMES = ("las", "freeze")
REGISTRY = Registry([EntryPoint(name, f"policies.preempt.{name}:POLICY", "quicksilver.preempt") for name in NAMES])
NOW_S = 100.0


def q(name: str, memory_mb: int = 1024, **more: Any) -> ContainerView:
    base: dict[str, Any] = {"app_type": "MAPREDUCE", "started_s": 0.0}
    return ContainerView(name, "app", Kind.QUEUEABLE, Resources(memory_mb, 1), **(base | more))


def config(name: str = "las", **values: Any) -> Shrinking:
    cfg = REGISTRY.bind("preempt", name, values).cfg
    assert isinstance(cfg, Shrinking)
    return cfg


def victims(memory_mb: int, *running: ContainerView, name: str = "las", vcores: float = 0, **values: Any) -> list[str]:
    bound = REGISTRY.bind("preempt", name, values)
    chosen: list[str] = bound.decide(Resources(memory_mb, vcores), running, bound.cfg, NOW_S)
    return chosen


@pytest.mark.parametrize(("name", "way"), [("las", Way.SHRINK), ("freeze", Way.FREEZE)])
def test_ways(name: str, way: Way) -> None:
    cfg = config(name)
    assert cfg.way(q("a")) is way
    assert cfg.way(q("a", app_type="spark")) is cfg.way(q("a", app_type="Apache Flink")) is Way.NONE
    assert cfg.way(ContainerView("g", "app", Kind.GUARANTEED, Resources(1, 1), app_type="MAPREDUCE")) is Way.NONE
    own = config(name, by_type={"TEZ": "kill"})
    assert own.way(q("a", app_type="TEZ")) is Way.KILL
    assert own.way(q("a", app_type="SPARK")) is way


@pytest.mark.parametrize("name", NAMES)
def test_settings_are_checked(name: str) -> None:
    assert config(name, quantum_s=10, extra=0).quantum_s == 10
    for wrong in ({"quantum_s": 0}, {"min_cores": 0}, {"starve_quanta": 0}, {"by_type": {"TEZ": "nap"}}, {"w": 1}):
        with pytest.raises(SettingsMistakesError):
            config(name, **wrong)


@pytest.mark.parametrize("name", NAMES)
def test_vcores_that_the_nodemanager_lacks_count_too(name: str) -> None:
    assert victims(0, q("a"), q("b"), name=name, vcores=1) == ["a"]
    assert victims(1, q("a"), q("b"), name=name, vcores=2) == ["a", "b"]
    assert victims(1, q("a"), q("b"), name=name, vcores=8) == []


def test_wall_time_counts_where_nobody_measures() -> None:
    assert victims(1000, q("a", attained_s=30.0), q("b", started_s=80)) == ["b"]
    assert victims(1000, q("a", attained_s=10.0), q("b", started_s=80)) == ["a"]
    assert victims(1000, q("a", started_s=50), q("b", started_s=None, arrived_s=70)) == ["b"]


def test_as_few_as_possible() -> None:
    assert victims(4096, q("small", 512, attained_s=1.0), q("big", 4096, attained_s=2.0)) == ["big"]
    assert victims(9000, q("a"), q("b")) == []
    assert victims(1024) == []


def test_who_is_never_preempted_is_never_killed() -> None:
    spark = q("s", app_type="SPARK", attained_s=0.0)
    guaranteed = ContainerView("g", "app", Kind.GUARANTEED, Resources(4096, 4), attained_s=0.0)
    assert victims(1024, spark, guaranteed) == []
    assert victims(1024, spark, guaranteed, q("a")) == ["a"]
    assert victims(1024, spark, q("a"), by_type={"SPARK": "kill"}) == ["s"]
    assert victims(1024, q("a"), by_type={"MAPREDUCE": "none"}) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_victims_is_a_setting(name: str) -> None:
    """At NOW_S each has another reason to go first."""
    idle = q("idle", 512, attained_s=1.0, started_s=10.0, app_priority=5)
    young = q("young", 512, attained_s=9.0, started_s=90.0, app_priority=5)
    humble = q("humble", 512, attained_s=9.0, started_s=10.0, app_priority=0)
    for order, expected in (("least_work", "idle"), ("newest", "young"), ("lowest_priority", "humble")):
        assert victims(512, idle, young, humble, name=name, victims=order) == [expected]


containers = st.lists(
    st.builds(
        lambda number, memory, attained, kind: q(f"c{number:02}", memory, attained_s=attained, app_type=kind),
        st.integers(0, 20),
        st.integers(0, 6),
        st.none() | st.integers(0, 200).map(float),
        st.sampled_from(["MAPREDUCE", "TEZ", "SPARK"]),
    ),
    max_size=7,
    unique_by=lambda c: c.id,
)


@settings(deadline=None)
@given(st.sampled_from(list(Victims)), st.integers(0, 14), containers)
def test_victims_suffice_and_none_could_be_left_out(order: Victims, need_mb: int, running: list[ContainerView]) -> None:
    cfg = Shrinking(victims=order)
    chosen = shrinking_victims(Resources(need_mb), running, cfg, NOW_S)
    assert chosen == shrinking_victims(Resources(need_mb), running[::-1], cfg, NOW_S)
    size = {c.id: c.resources.memory_mb for c in running if c.app_type != "SPARK"}
    assert set(chosen) <= set(size)
    if need_mb == 0 or sum(size.values()) < need_mb:
        assert chosen == []
        return
    assert sum(size[c] for c in chosen) >= need_mb
    for fewer in combinations(chosen, len(chosen) - 1):
        assert sum(size[c] for c in fewer) < need_mb
