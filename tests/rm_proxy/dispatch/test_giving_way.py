"""Which application's container gives way at a node, and the bound: of a job at most one in N at a time."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.common.service_levels import level
from quicksilver.common.messages import ContainerReport, ContainerState, Report
from rm_proxy.dispatch.giving_way import NOTHING_YIELDS, GivingWay

WORK_S = {"small": 10.0, "middle": 300.0, "wide": 2_000.0, "widest": 9_000.0}
"""Levels 0, 2, 4 and 5."""


def work_s(app_id: str, now_s: float) -> float:
    return WORK_S[app_id]


def report(node_id: str, *apps: str, shrunk: str = "", slots: int = 5, **more: object) -> Report:
    """Return a report of 4 cores: an application's container runs where it is named, and is shrunk for `shrunk`."""
    states = [(app, ContainerState.RUNNING) for app in apps]
    states += [(app, ContainerState.SHRUNK) for app in shrunk.split()]
    containers = [
        ContainerReport(
            container_id=f"{node_id} {n}",
            app_id=app,
            state=state,
            **{"kind": "Q", "memory_mb": 1024, "vcores": 1} | more,  # type: ignore[arg-type]
        )
        for n, (app, state) in enumerate(states)
    ]
    url = "http://127.0.0.1:1"
    base = {"boot": "b", "seq": 1, "sidecar_url": url, "memory_mb": 8192, "vcores": 4}
    return Report(node_id=node_id, slots=slots, containers=containers, **base)  # type: ignore[arg-type]


def seen(machine: GivingWay, node_id: str, *apps: str, beyond: float = 0.0, **more: object) -> float:
    return machine.report(report(node_id, *apps, **more), beyond, work_s, 0.0)  # type: ignore[arg-type]


def test_the_widest_job_of_a_node_gives_way() -> None:
    machine = GivingWay()
    assert seen(machine, "a", "small", "wide", "middle") == 4.0
    assert seen(machine, "a", "small", "middle") == 2.0
    assert seen(machine, "a") == NOTHING_YIELDS
    assert seen(machine, "b", "wide", slots=0) == NOTHING_YIELDS, "nothing is shrunk there"
    assert seen(machine, "b", "wide", kind="G") == NOTHING_YIELDS
    assert seen(machine, "b", "wide", am=True) == NOTHING_YIELDS
    assert seen(machine, "b", shrunk="wide") == NOTHING_YIELDS, "it gave way already"


def test_of_a_job_one_container_in_four_gives_way_and_always_one() -> None:
    machine = GivingWay()
    for name in "abc":
        assert seen(machine, name, "small", "wide", "wide") == 4.0
    assert machine.taken("a") == ["a", "b", "c"], "6 containers run: 1 of them may be shrunk"
    assert machine.spares("wide", 4) and not machine.spares("wide", 2)
    assert seen(machine, "b", "small", "wide", "wide") == 0.0, "another job gives way there meanwhile"
    assert seen(machine, "a", "small", "wide", shrunk="wide", beyond=1) == 0.0, "it is shrunk"
    assert seen(machine, "a", "small", "wide", "wide") == 4.0, "and is not any more"
    assert not machine.spares("wide", 4)


def test_a_container_on_its_way_counts_until_it_came_or_was_given_up() -> None:
    machine = GivingWay()
    seen(machine, "a", "wide", "wide", "small", "small")
    machine.taken("a")
    assert seen(machine, "a", "wide", "wide", "small", "small", beyond=1) == 4.0, "it goes on: the same one gives way"
    assert machine.spares("wide", 4)
    assert seen(machine, "a", "wide", "wide", "small", "small", beyond=0) == 4.0
    assert not machine.spares("wide", 4)


def test_jobs_of_a_node_and_a_node_that_is_forgotten() -> None:
    machine = GivingWay()
    seen(machine, "a", "wide", "small", shrunk="wide")
    assert set(machine.at("a")) == {"wide", "small"}
    machine.forget_node("a")
    assert not machine.at("a") and machine.taken("a") == []
    assert not machine.spares("wide", 4)


@settings(deadline=None)
@given(st.data())
def test_no_job_pays_more_than_its_share(data: st.DataObject) -> None:
    machine, nodes = GivingWay(), list("abcdef")
    apps = st.lists(st.sampled_from(sorted(WORK_S)), min_size=4, max_size=4)
    runs = {name: data.draw(apps) for name in nodes}
    levels = {name: seen(machine, name, *runs[name]) for name in nodes}
    shrunk: dict[str, str] = {}
    for _ in range(data.draw(st.integers(0, 20))):
        name = data.draw(st.sampled_from(nodes))
        if name not in shrunk and levels[name] != NOTHING_YIELDS:
            (shrunk[name],) = {app for app in runs[name] if level(WORK_S[app]) == levels[name]}
            for other in machine.taken(name):
                levels[other] = NOTHING_YIELDS
        elif data.draw(st.booleans()):
            shrunk.pop(name, None)
        if data.draw(st.booleans()):
            whole = list(runs[name])
            if name in shrunk:
                whole.remove(shrunk[name])
            levels[name] = seen(machine, name, *whole, shrunk=shrunk.get(name, ""), beyond=float(name in shrunk))
        total = Counter(app for names in runs.values() for app in names)
        for app, count in Counter(shrunk.values()).items():
            assert count <= max(1, total[app] // 4), (app, runs, shrunk)
