"""What the running proxy tells of a node whose containers share its cores."""

from typing import Any

from quicksilver.common.messages import ContainerReport, ContainerState
from rm_proxy.api.live_state import LiveState
from tests.rm_proxy.yarn_messages import APP, cid, coordinator, node_id, report


def runs(number: int, **more: Any) -> ContainerReport:
    base = {"container_id": cid(number), "app_id": APP, "kind": "Q", "state": ContainerState.RUNNING}
    return ContainerReport(**(base | {"memory_mb": 1024, "vcores": 1} | more))


def test_nodes_with_their_slots_and_what_is_shrunk() -> None:
    world = coordinator(nodes=2)
    shrunk = runs(3, state=ContainerState.SHRUNK, attained_s=60.0, cores=0.05, times_shrunk=2, shrunk_by=cid(2))
    reported = [runs(1, kind="G", am=True), runs(2), shrunk]
    world.report(node_id(1), report(1, containers=reported, slots=6, attained_sd_s=12.5), 0.0)
    state = LiveState(world, report_fresh_s=5.0, source=lambda: "")
    first, second = state.nodes()
    assert (first.container_count, first.slots, first.shrunk, first.attained_sd_s) == (2, 6, 1, 12.5)
    assert (second.container_count, second.slots, second.shrunk, second.attained_sd_s) == (0, 0, 0, 0.0)
    detail = state.node(node_id(1))
    assert detail is not None and detail.containers == reported and detail.shrunk == 1
    live = state.container(cid(3))
    assert live is not None and (live.node_id, live.container) == (node_id(1), shrunk)
