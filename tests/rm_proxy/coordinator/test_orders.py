"""Orders to sidecars that do not wait for a report: each goes once, by whichever way comes first."""

from __future__ import annotations

from quicksilver.common.messages import Ack, Report, Shed
from rm_proxy.attempt.effects import DropHeld
from rm_proxy.coordinator.coordinator import Coordinator
from tests.rm_proxy.yarn_messages import cid, container_report, coordinator, node_id, report, yarn_node

SHED = Shed(container_id=cid(2), cause="steal", reason="an idle node has room")


def running(kind: str) -> Report:
    container = container_report(3, kind=kind, memory_mb=512)
    return report(1, containers=[container])


def ordered() -> Coordinator:
    """Return a coordinator with an order of each kind for the first node."""
    world = coordinator(nodes=2)
    world.reports.report(node_id(1), running("Q"), 1.0)
    world.reports.undelivered(DropHeld(node_id(1), cid(1), "released"))
    world.reports.promoted(node_id(1), cid(3))
    world.mover.shed(node_id(1), SHED)
    return world


def test_orders_go_without_a_report_and_once() -> None:
    world = ordered()
    assert list(world.reports.nodes_with_orders()) == [node_id(1)]
    assert world.reports.orders(node_id(1)) == Ack(
        events_to=-1, drop=[cid(1)], drop_reason="released", shed=[SHED], promoted=[cid(3)]
    )
    again = world.reports.orders(node_id(1))
    assert again == Ack(events_to=-1, promoted=[cid(3)]), "it is repeated until the sidecar reports it as guaranteed"
    ack = world.reports.report(node_id(1), running("G"), 2.0)
    assert (ack.drop, ack.shed, ack.promoted) == ([], [], [])
    assert list(world.reports.nodes_with_orders()) == []
    assert world.reports.orders(node_id(1)) is None


def test_orders_that_went_with_an_answer_do_not_go_again() -> None:
    world = ordered()
    ack = world.reports.report(node_id(1), running("Q"), 2.0)
    assert (ack.drop, ack.shed, ack.promoted) == ([cid(1)], [SHED], [cid(3)])
    world.reports.report(node_id(1), running("G"), 3.0)
    assert world.reports.orders(node_id(1)) is None


def test_a_node_that_has_not_reported_keeps_its_orders() -> None:
    world = coordinator(nodes=2)
    world.yarn_nodes([yarn_node(number) for number in (1, 2, 3)], 1.0)
    world.reports.undelivered(DropHeld(node_id(3), cid(1), "released"))
    assert world.reports.orders(node_id(3)) is None and world.reports.orders("unknown:1") is None
    assert list(world.reports.nodes_with_orders()) == [node_id(3)]
    assert world.reports.report(node_id(3), report(3), 1.0).drop == [cid(1)]
