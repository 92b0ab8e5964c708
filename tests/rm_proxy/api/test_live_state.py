"""What the running proxy tells of a node whose containers share its cores."""

from quicksilver.common.messages import ContainerState
from rm_proxy.api.live_state import LiveState
from rm_proxy.api.yarn_pages import YarnPages
from tests.rm_proxy.yarn_messages import APP, cid, container_report, coordinator, node_id, report


def test_nodes_with_their_slots_and_what_is_shrunk() -> None:
    world = coordinator(nodes=2)
    shrunk = container_report(
        3, state=ContainerState.SHRUNK, attained_s=60.0, cores=0.05, times_shrunk=2, shrunk_by=cid(2)
    )
    reported = [container_report(1, kind="G", am=True), container_report(2), shrunk]
    world.reports.report(node_id(1), report(1, containers=reported, slots=6, attained_sd_s=12.5), 0.0)
    state = LiveState(world, report_fresh_s=5.0, source=lambda: "")
    first, second = state.nodes()
    assert (first.container_count, first.slots, first.shrunk, first.attained_sd_s) == (2, 6, 1, 12.5)
    assert (second.container_count, second.slots, second.shrunk, second.attained_sd_s) == (0, 0, 0, 0.0)
    detail = state.node(node_id(1))
    assert detail is not None and detail.containers == reported and detail.shrunk == 1
    live = state.container(cid(3))
    assert live is not None and (live.node_id, live.container) == (node_id(1), shrunk)


def test_nodes_applications_and_queues_have_links_to_yarns_pages() -> None:
    world = coordinator(nodes=1)
    world.attempt(f"{APP.replace('application', 'appattempt')}_000001")
    state = LiveState(world, report_fresh_s=5.0, source=lambda: "", rm_web="https://rm1:8090")
    (node,), (app,) = state.nodes(), state.applications()
    yarn = world.nodes[node.id].yarn
    assert yarn is not None and node.nm_page == (f"https://{yarn.web_address}/node" if yarn.web_address else "")
    assert app.rm_page == f"https://rm1:8090/cluster/app/{APP}"
    assert {queue.rm_page for queue in state.queues()} == {
        f"https://rm1:8090/cluster/scheduler?openQueues={queue.name}" for queue in state.queues()
    }


def test_links_to_pages() -> None:
    assert YarnPages("http://rm1:8088").node("n1:8042") == "http://n1:8042/node"
    assert YarnPages("http://rm1:8088").queue("root.a b") == "http://rm1:8088/cluster/scheduler?openQueues=root.a%20b"
    assert YarnPages("").application(APP) == YarnPages("").queue("root") == YarnPages("").node("") == ""
