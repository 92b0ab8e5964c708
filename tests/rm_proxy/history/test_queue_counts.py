from typing import Any

from policies.model import Resources
from quicksilver.common.messages import ContainerReport, ContainerState
from rm_proxy.api.queue_views import queue_tree
from rm_proxy.history import queue_counts
from rm_proxy.history.queue_counts import QueueHistory, QueueSample, held_by_app, sample_queues
from rm_proxy.yarn.models import YarnQueue
from tests.rm_proxy.yarn_messages import APP, Am, cid, coordinator, node_id, report, row


def yarn_queue(path: str, leaf: bool, size: Resources) -> YarnQueue:
    return YarnQueue(path, leaf, "RUNNING", size, Resources(), frozenset(), "", capacity=size)


def test_a_queue_counts_what_is_wanted_held_and_used_below_it() -> None:
    world = coordinator(nodes=2)
    size = Resources(16384, 16)
    world.inventory.update_queues([yarn_queue("root", False, size), yarn_queue("root.default", True, size)])
    am = Am(world)
    am.asks(row(count=3))
    waiting: dict[str, Any] = {"app_id": APP, "kind": "Q", "state": ContainerState.WAITING}
    waits = [ContainerReport(container_id=cid(n), memory_mb=1024, vcores=1, **waiting) for n in (8, 9)]
    world.reports.report(node_id(1), report(1, containers=waits, queue_length=2), 0.0)
    held: dict[str, int] = {}
    held_by_app(world.nodes.values(), held)
    samples = sample_queues(world, held)
    assert held == {APP: 2} and samples["root"] == samples["root.default"]
    sample = samples["root"]
    assert (sample.wanted_g, sample.wanted_q, sample.held, sample.apps) == (0, 3, 2, 1)
    assert (sample.q_mb, sample.q_vcores, sample.g_mb) == (3072.0, 3.0, 0.0)
    root, leaf = queue_tree(world).items
    assert (root.name, root.leaf, root.wanted_q, root.left_q) == ("root", False, 3, None)
    assert (leaf.held, leaf.apps, leaf.users, leaf.used_q, leaf.queueable) == (2, 1, 1, Resources(3072, 3), True)
    assert leaf.quotas == ["none"] and queue_tree(world).cluster == Resources(16384, 16)


def test_idle_queues_cost_nothing(monkeypatch: Any) -> None:
    history, idle, busy = QueueHistory(), QueueSample(), QueueSample(wanted_q=4, apps=1)
    for second in range(0, 100, 10):
        history.add(second, {"root.a": idle, "root.b": busy if 30 <= second <= 50 else idle})
    assert history.last("root.a", 100, 100).t == [] and "root.a" not in history._series
    columns = history.last("root.b", 100, 100)
    assert columns.t == [30.0, 40.0, 50.0, 60.0, 100.0], "idle since 60 s, and so it is now"
    assert columns.values["wanted_q"] == [4.0, 4.0, 4.0, 0.0, 0.0]
    monkeypatch.setattr(queue_counts, "MAX_QUEUES", 2)
    history.add(200, {f"root.c{number}": busy for number in range(3)})
    assert list(history._series) == ["root.c1", "root.c2"] and history._idle == {}


def test_a_queue_that_became_idle_ends_at_zero() -> None:
    history, busy = QueueHistory(), QueueSample(g_mb=5.0)
    for second, sample in ((0, busy), (10, QueueSample()), (20, QueueSample()), (500, busy), (510, busy)):
        history.add(second, {"root.a": sample})
    columns = history.last("root.a", 1000, 520)
    points = list(zip(columns.t, columns.values["g_mb"], strict=True))
    assert points == [(0.0, 5.0), (10.0, 0.0), (490.0, 0.0), (500.0, 5.0)]
