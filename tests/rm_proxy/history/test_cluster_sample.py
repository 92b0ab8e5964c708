"""What a sample counts, and the spans in which containers were shrunk."""

from typing import Any

from quicksilver.common.messages import ContainerReport, ContainerState
from rm_proxy.history.cluster_sample import NAMES, Sample, Shrinks
from tests.rm_proxy.yarn_messages import APP, cid, coordinator, node_id, report

RUNNING, SHRUNK, WAITING = ContainerState.RUNNING, ContainerState.SHRUNK, ContainerState.WAITING


def at_node(number: int, state: ContainerState, kind: str = "Q", **more: Any) -> ContainerReport:
    fields = {"container_id": cid(number), "app_id": APP, "kind": kind, "state": state, "memory_mb": 1024, "vcores": 1}
    return ContainerReport(**(fields | more))


def test_a_sample_of_two_nodes() -> None:
    world = coordinator(nodes=2)
    containers = [
        at_node(1, RUNNING, "G", am=True),
        at_node(2, RUNNING, "G", vcores=2),
        at_node(3, RUNNING),
        at_node(4, SHRUNK),
        at_node(5, WAITING, vcores=3),
    ]
    world.reports.report(node_id(1), report(1, containers=containers, used_g_mb=2048, used_q_mb=1024), 0.0)
    sample = Sample()
    for node in world.nodes.values():
        sample.add(node)
    sample.add_pending(world)
    values = sample.values()
    assert set(values) == set(NAMES)
    assert (values["g"], values["q"], values["shrunk"], values["waiting"]) == (3, 1, 1, 3)
    assert (values["count_g"], values["count_q"], values["count_shrunk"], values["count_waiting"]) == (2, 2, 1, 1)
    assert (values["cores"], values["idle"], values["nodes"], values["nodes_usable"]) == (16, 12, 2, 2)
    assert (values["memory_mb"], values["g_mb"], values["q_mb"], values["pending_q"]) == (16384, 2048, 1024, 0)


def test_spans_of_shrinks_join_over_samples_and_end() -> None:
    world, shrinks = coordinator(nodes=2), Shrinks(limit=3)

    def seen(now_s: float, *containers: ContainerReport) -> None:
        world.reports.report(node_id(1), report(1, containers=list(containers)), now_s)
        for node in world.nodes.values():
            shrinks.add(node)
        shrinks.end_round()

    seen(10, at_node(1, SHRUNK, since_s=2))
    seen(15, at_node(1, SHRUNK, since_s=7.3), at_node(2, SHRUNK, since_s=1))
    seen(20, at_node(1, RUNNING, since_s=3))
    seen(25, at_node(1, SHRUNK, since_s=1))
    spans = [(one.container_id, one.from_s, one.to_s) for one in shrinks.of(node_id(1), 0)]
    assert spans == [(cid(1), 8, 15), (cid(2), 14, 15), (cid(1), 24, 25)]
    assert [one.from_s for one in shrinks.of(node_id(1), 20)] == [24] and shrinks.of(node_id(2), 0) == []
    seen(30, at_node(3, SHRUNK))
    assert len(shrinks.of(node_id(1), 0)) == 3, "the oldest is forgotten"
