"""How long the containers that wait now have waited so far."""

from quicksilver.common.messages import ContainerState
from rm_proxy.history.open_waits import open_waits
from rm_proxy.views.delays import OpenWaits
from tests.rm_proxy.yarn_messages import APP, Am, container_report, coordinator, node_id, report, row


def test_asks_without_a_place_and_starts_that_nodes_hold() -> None:
    world = coordinator(nodes=1)
    am = Am(world)
    am.asks(row(count=20))
    held = container_report(9, state=ContainerState.WAITING, since_s=4.0)
    world.reports.report(node_id(1), report(1, containers=[held], queue_length=1), 1.0)
    found = open_waits(world, 62.0)
    assert sum(count for _, count in found.q) == 20 and {wait_s for wait_s, _ in found.q} == {62.0}
    assert (found.g, found.at_nodes) == ((), ((65.0, 1),)), "the report is 61 s old"
    assert open_waits(world, 62.0, APP).at_nodes == ((65.0, 1),)
    other = open_waits(world, 62.0, "application_1_0099")
    assert other == OpenWaits()
