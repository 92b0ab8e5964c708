"""The least loaded nodes by label and size: what `late` chooses among them is what it chooses among all nodes."""

from collections.abc import Set
from dataclasses import dataclass, replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from policies.common.node_candidates import SHOWN
from policies.config.registry import Registry
from policies.model import AppView, Ask, NodeView, Resources
from rm_proxy.dispatch import free_places
from rm_proxy.dispatch.node_ranking import NodeRanking

ONE = Resources(1024, 1)
LATE = Registry().bind("place", "late", {"ahead_s": 1.5})


@dataclass
class Site:
    view: NodeView


class Nodes(dict[str, Site]):
    def __init__(self) -> None:
        super().__init__()
        self.ranking = NodeRanking(self)

    def put(self, number: int, view: NodeView | None) -> None:
        node_id = f"node{number}"
        if view is None:
            self.pop(node_id, None)
        else:
            self[node_id] = Site(replace(view, id=node_id, host=f"host{number}", rack=f"/rack{number % 2}"))
        self.ranking.changed[node_id] = None

    def at(self, places: Set[str]) -> set[str]:
        return {node_id for node_id, site in self.items() if not places.isdisjoint((site.view.host, site.view.rack))}

    def best(self, ask: Ask, limit: int = SHOWN) -> list[str]:
        return [view.id for view in self.ranking.best(ask, limit, self.at)]


def asks(size: Resources = ONE, **more: object) -> Ask:
    return Ask(AppView("application_1_1"), 20, size, **more)  # type: ignore[arg-type]


def used(vcores: int, **more: object) -> NodeView:
    view = NodeView("", capacity=Resources(8192, 4), used_q=Resources(1024 * vcores, vcores), containers=vcores)
    return replace(view, **more)  # type: ignore[arg-type]


def test_the_least_loaded_come_first_and_changes_are_followed() -> None:
    nodes = Nodes()
    for number, view in enumerate((used(3), used(1), used(4), used(2, label="gpu"), used(0, usable=False))):
        nodes.put(number, view)
    assert nodes.best(asks()) == ["node1", "node0"] and nodes.best(asks(), 1) == ["node1"]
    assert nodes.best(asks(label="gpu")) == ["node3"] and nodes.best(asks(Resources(1024, 2))) == ["node1"]
    nodes.put(1, None)
    nodes.put(2, used(0))
    assert nodes.best(asks()) == ["node2", "node0"]


def test_the_nearest_tier_alone_counts() -> None:
    nodes = Nodes()
    for number, view in enumerate((used(4), used(3), used(0), used(1))):
        nodes.put(number, view)
    at_hosts = asks(hosts=frozenset(("host0", "host1")), racks=frozenset(("/rack0", "/rack1")))
    assert nodes.best(at_hosts) == ["node1"]
    assert nodes.best(asks(hosts=frozenset(("host0",)), racks=frozenset(("/rack1",)))) == ["node3", "node1"]
    assert nodes.best(asks(hosts=frozenset(("host0",)))) == ["node2", "node3", "node1"]
    assert nodes.best(asks(hosts=frozenset(("host0",)), anywhere=False)) == []


def test_sizes_are_bounded() -> None:
    nodes = Nodes()
    nodes.put(0, used(0))
    for vcores in range(2 * free_places.MAX_SIZES):
        nodes.best(asks(Resources(1024, vcores)))
    assert len(nodes.ranking._ranked) == free_places.MAX_SIZES
    nodes.put(0, used(4))
    assert nodes.best(asks()) == [], "one that was forgotten is ranked anew"


def test_of_nodes_that_are_alike_a_worker_takes_its_own() -> None:
    nodes = Nodes()
    nodes.ranking.is_own = {"node1", "node3"}.__contains__
    for number, view in enumerate((used(1), used(1), used(2), used(2), used(0, usable=False))):
        nodes.put(number, view)
    assert nodes.best(asks()) == ["node1", "node3", "node2"] and nodes.best(asks(), 1) == ["node1"]
    near = frozenset(("host0", "host1"))
    assert nodes.best(asks(hosts=near)) == ["node1"]
    nodes.put(2, used(0))
    assert nodes.best(asks()) == ["node2", "node1", "node0", "node3"], "one that is less loaded comes first"


VIEWS = st.builds(
    used,
    st.integers(0, 5),
    usable=st.booleans(),
    label=st.sampled_from(("", "", "gpu")),
    queue_length=st.sampled_from((0, 0, 1)),
    slots=st.sampled_from((0, 4, 6)),
    limit_q=st.sampled_from((None, None, Resources(2048, 2))),
    yields_level=st.sampled_from((-1.0, 9.0)),
    frees_s=st.sampled_from((0.5, 9.0)),
)
ASKS = st.builds(
    asks,
    st.sampled_from((ONE, Resources(2048, 2), Resources())),
    label=st.sampled_from(("", "gpu")),
    anywhere=st.booleans(),
    hosts=st.frozensets(st.sampled_from([f"host{number}" for number in range(12)]), max_size=2),
    racks=st.frozensets(st.sampled_from(("/rack0", "/rack1")), max_size=2),
)


@given(st.lists(st.tuples(st.integers(0, 11), st.none() | VIEWS, ASKS), max_size=30))
def test_late_chooses_the_same_among_them(steps: list[tuple[int, NodeView | None, Ask]]) -> None:
    nodes = Nodes()
    for number, view, ask in steps:
        nodes.put(number, view)
        views = [site.view for site in nodes.values()]
        best = nodes.ranking.best(ask, SHOWN, nodes.at)
        among_all = LATE.decide(ask, views, LATE.cfg, Random(1))
        if not best:
            starting = [v for v in views if v.load_where_it_starts(ask.resources) is not None]
            assert not any(ask.tier(view) is not None for view in starting)
            continue
        among_best = LATE.decide(ask, best, LATE.cfg, Random(1))
        assert (among_best.node, among_best.scores) == (among_all.node, among_all.scores)
        nodes.ranking.is_own = lambda node_id: node_id < "node2"
        among_own = LATE.decide(ask, nodes.ranking.best(ask, SHOWN, nodes.at), LATE.cfg, Random(1))
        nodes.ranking.is_own = None
        assert among_own.node is not None and among_own.scores[0][1] == among_all.scores[0][1], "one as good"
