import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from policies.model import Resources
from quicksilver.common.http.rest_errors import RefusedError, UnreachableError
from rm_proxy.yarn.client import YarnRest, YarnRestError
from rm_proxy.yarn.models import NodesAnswer
from tests.answers import answering
from tests.paths import DATA

RECORDED = DATA / "rm_proxy"
"""Answers of ResourceManagers 3.4.2 with one node, an application master running in root.prod.etl."""
Answers = dict[str, tuple[int, str]]


class Blocking:
    """Calls of a client, each in a loop of its own."""

    def __init__(self, url: str, timeout_s: float = 5.0) -> None:
        self._url, self._timeout_s = url, timeout_s

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*arguments: Any) -> Any:
            client = YarnRest(self._url, self._timeout_s)
            try:
                return await getattr(client, name)(*arguments)
            finally:
                await client.close()

        return lambda *arguments: asyncio.run(call(*arguments))


@pytest.fixture
def rm() -> Iterator[Callable[[Answers], Blocking]]:
    """Return a maker of clients of a server that gives the answers, path by path; `asked` has what it was asked."""
    with ExitStack() as servers:

        def start(answers: Answers) -> Blocking:
            def answer(_: str, target: str, __: bytes) -> tuple[int, str]:
                split = urlsplit(target)
                asked.append((split.path, parse_qs(split.query)))
                return answers.get(split.path.removeprefix("/ws/v1/cluster"), (404, "nothing here"))

            return Blocking(servers.enter_context(answering(answer)))

        asked.clear()
        yield start


asked: list[tuple[str, dict[str, list[str]]]] = []


def recorded(name: str) -> tuple[int, str]:
    return 200, (RECORDED / f"{name}.json").read_text()


def test_nodes(rm: Callable[[Answers], Blocking]) -> None:
    (node,) = rm({"/nodes": recorded("nodes")}).nodes()
    assert (node.id, node.host, node.rack, node.state) == ("localhost:27145", "localhost", "/default-rack", "RUNNING")
    assert node.capacity == Resources(4096, 4)
    assert node.used == Resources(256, 1)
    assert (node.label, node.web_address, node.opportunistic) == ("", "localhost:27142", 0)
    assert node.running and not node.decommissioning


def test_no_nodes_and_no_applications(rm: Callable[[Answers], Blocking]) -> None:
    client = rm({"/nodes": (200, '{"nodes":{}}'), "/apps": recorded("apps_none")})
    assert client.nodes() == [] and client.apps() == []
    assert rm({"/nodes": (200, '{"nodes":null}')}).nodes() == []


def test_a_labelled_node_that_leaves(rm: Callable[[Answers], Blocking]) -> None:
    answer = json.loads(recorded("nodes")[1])
    answer["nodes"]["node"][0] |= {"state": "DECOMMISSIONING", "nodeLabels": ["gpu"]}
    (node,) = rm({"/nodes": (200, json.dumps(answer))}).nodes()
    assert node.decommissioning and not node.running and node.label == "gpu"


def test_applications(rm: Callable[[Answers], Blocking]) -> None:
    (app,) = rm({"/apps": recorded("apps")}).apps(["RUNNING", "ACCEPTED"])
    assert (app.queue, app.user, app.type, app.name) == ("root.prod.etl", "root", "YARN", "recorded")
    assert (app.tags, app.priority, app.finished_s) == ((), 0, None)
    assert app.submitted_s == 1795248464.608
    assert asked[0][1]["states"] == ["RUNNING,ACCEPTED"]
    assert "resourceRequests" in asked[0][1]["deSelects"][0]


def test_one_application_finished_or_unknown(rm: Callable[[Answers], Blocking]) -> None:
    one = json.loads(recorded("app_finished")[1])["app"]
    unknown = (404, recorded("app_unknown")[1])
    client = rm({f"/apps/{one['id']}": recorded("app_finished"), "/apps/gone": unknown})
    app = client.app(one["id"])
    assert app is not None and (app.type, app.name, app.queue) == ("MAPREDUCE", "word count", "root.default")
    assert app.finished_s == one["finishedTime"] / 1000 > app.submitted_s
    assert client.app("gone") is None


def test_tags_and_types_are_made_equal(rm: Callable[[Answers], Blocking]) -> None:
    one = json.loads(recorded("app_finished")[1])["app"] | {"applicationTags": "b,a, ", "applicationType": "Spark"}
    app = rm({"/apps/x": (200, json.dumps({"app": one}))}).app("x")
    assert app is not None and (app.tags, app.type) == (("a", "b"), "SPARK")


def test_capacity_queues_flat_with_limits_use_users_and_labels(rm: Callable[[Answers], Blocking]) -> None:
    queues = {queue.path: queue for queue in rm({"/scheduler": recorded("scheduler_capacity")}).queues()}
    assert list(queues) == ["root", "root.default", "root.prod", "root.prod.etl", "root.prod.adhoc"]
    assert [q.leaf for q in queues.values()] == [False, True, False, True, True]
    assert queues["root.default"].max_capacity == Resources(2048, 2)
    assert queues["root.prod.adhoc"].max_capacity == Resources(2048, 2)
    assert queues["root.prod.etl"].max_capacity == Resources(4096, 4)
    assert queues["root"].used == queues["root.prod"].used == queues["root.prod.etl"].used == Resources(256, 1)
    assert queues["root.prod.etl"].user_used == {"root": Resources(256, 1)}
    assert queues["root.prod.etl"].user_limit == Resources(1720, 1)
    assert queues["root.prod.adhoc"].user_limit == Resources(737, 1), "vcores are rounded down in the answer"
    assert queues["root.prod"].user_limit is None and queues["root.default"].priority == 0
    assert {queue.user_ratio for queue in queues.values()} == {1.0}, "as shipped users have no shares"
    assert queues["root.default"].labels == {"*"} and queues["root.prod.adhoc"].labels == {"gpu"}
    assert queues["root.prod.etl"].name == "etl" and queues["root.prod.etl"].default_label == ""


def test_fair_queues(rm: Callable[[Answers], Blocking]) -> None:
    queues = {queue.path: queue for queue in rm({"/scheduler": recorded("scheduler_fair")}).queues()}
    assert list(queues) == ["root", "root.prod", "root.prod.etl", "root.prod.adhoc", "root.default"]
    assert queues["root.prod"].max_capacity == Resources(2048, 2)
    assert queues["root.prod"].used == queues["root"].used == Resources(1024, 1)
    assert queues["root.default"].used == Resources() and queues["root.default"].leaf
    shares = {path: queue.capacity.memory_mb for path, queue in queues.items()}
    assert shares == {
        "root": 4096,
        "root.prod": 2048,
        "root.prod.etl": 1024,
        "root.prod.adhoc": 1024,
        "root.default": 2048,
    }


def test_users_have_shares_by_percent_and_weight(rm: Callable[[Answers], Blocking]) -> None:
    status, body = recorded("scheduler_capacity")
    answer = json.loads(body)
    prod = next(q for q in answer["scheduler"]["schedulerInfo"]["queues"]["queue"] if q["queueName"] == "prod")
    etl = next(q for q in prod["queues"]["queue"] if q["queueName"] == "etl")
    etl["userLimit"], etl["users"]["user"][0]["userWeight"] = 25.0, 2.0
    queues = {queue.path: queue for queue in rm({"/scheduler": (status, json.dumps(answer))}).queues()}
    assert (queues["root.prod.etl"].user_ratio, queues["root.prod.etl"].user_weights) == (0.25, {"root": 2.0})
    assert queues["root.default"].user_ratio == 1.0


def test_fifo_has_one_queue_of_the_cluster(rm: Callable[[Answers], Blocking]) -> None:
    client = rm({"/scheduler": recorded("scheduler_fifo"), "/metrics": recorded("metrics")})
    (queue,) = client.queues()
    assert (queue.path, queue.max_capacity, queue.used) == ("root.default", Resources(4096, 4), Resources(256, 1))


def test_an_unknown_scheduler_is_an_error_with_a_remedy(rm: Callable[[Answers], Blocking]) -> None:
    client = rm({"/scheduler": (200, '{"scheduler":{"schedulerInfo":{"type":"lottery"}}}')})
    with pytest.raises(YarnRestError, match=r"/ws/v1/cluster/scheduler: unknown scheduler 'lottery'; use the Capacity"):
        client.queues()


def test_the_resource_manager_itself(rm: Callable[[Answers], Blocking]) -> None:
    client = rm({"/info": recorded("info"), "/metrics": recorded("metrics")})
    cluster = client.cluster()
    assert (cluster.epoch_ms, cluster.started_s) == (1795248426084, 1795248426.084)
    assert (cluster.state, cluster.active, cluster.version) == ("STARTED", True, "3.4.2")
    metrics = client.metrics()
    assert (metrics.total, metrics.allocated) == (Resources(4096, 4), Resources(256, 1))
    assert (metrics.nodes_active, metrics.apps_running, metrics.containers_allocated) == (1, 1, 1)


def test_why_it_grants_nothing_queueable(rm: Callable[[Answers], Blocking]) -> None:
    on = '{"property":{"key":"yarn.x","value":"true","isFinal":false,"resource":"yarn-site.xml"}}'
    client = rm({"/info": recorded("info"), "/conf": (200, on)})
    assert client.why_no_grants() == ""
    client = rm({"/info": recorded("info"), "/conf": (200, on.replace("true", "false"))})
    assert client.why_no_grants().endswith(".enabled is not true in the ResourceManager")
    with pytest.raises(RefusedError):
        rm({"/info": recorded("info")}).why_no_grants()


def test_a_standby_is_not_active(rm: Callable[[Answers], Blocking]) -> None:
    text = recorded("info")[1].replace('"ACTIVE"', '"STANDBY"')
    assert not rm({"/info": (200, text)}).cluster().active


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (
            (200, '{"nodes":{"node":[{"id":"n:1"}]}}'),
            YarnRestError,
            "unexpected answer: nodes.node.0.rack: Field required",
        ),
        ((200, "[]"), YarnRestError, "unexpected answer: "),
        ((200, "This is standby RM"), RefusedError, "instead of JSON"),
        ((500, "oops"), RefusedError, "answered 500"),
        ((403, "{}"), RefusedError, "answered 403"),
    ],
)
def test_bad_answers_name_the_address(
    rm: Callable[[Answers], Blocking], answer: tuple[int, str], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=r"http://127\.0\.0\.1:\d+/ws/v1/cluster/nodes: ") as caught:
        rm({"/nodes": answer}).nodes()
    assert text in str(caught.value)


def test_nobody_there_asks_for_rm_web() -> None:
    with pytest.raises(UnreachableError, match=r"connection refused; is the ResourceManager up, and is proxy\.rm_web"):
        Blocking("http://127.0.0.1:9", timeout_s=1).nodes()


@pytest.mark.parametrize(("value", "promotes"), [("true", True), (" TRUE ", True), ("false", False), (None, False)])
def test_whether_the_resourcemanager_promotes(
    rm: Callable[[Answers], Blocking], value: str | None, promotes: bool
) -> None:
    answer = {"property": {"key": "yarn.resourcemanager.auto-update.containers", "value": value, "isFinal": False}}
    assert rm({"/conf": (200, json.dumps(answer))}).auto_update() is promotes
    assert asked == [("/conf", {"name": ["yarn.resourcemanager.auto-update.containers"]})]


def test_who_may_not_read_the_configuration_is_told_so(rm: Callable[[Answers], Blocking]) -> None:
    with pytest.raises(RefusedError):
        rm({"/conf": (403, "{}")}).auto_update()


def test_a_long_list_is_read_record_by_record(
    rm: Callable[[Answers], Blocking], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = json.loads(recorded("nodes")[1])["nodes"]["node"][0]
    answer = json.dumps({"nodes": {"node": [record | {"id": f"n{number}:1"} for number in range(500)]}}, indent=1)
    monkeypatch.setattr(NodesAnswer, "model_validate", None)  # what reads a whole answer
    assert [node.id for node in rm({"/nodes": (200, answer)}).nodes()] == [f"n{number}:1" for number in range(500)]


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ('{"nodes":{"node":[{"id":"n:1"}]}}', "nodes.node.0.rack"),
        ('{"nodes":{"node":{"id":"n:1"}}}', "nodes.node"),
        ('{"nodes":{"node":7}}', "nodes.node"),
    ],
)
def test_a_record_that_is_none_is_named(rm: Callable[[Answers], Blocking], answer: str, place: str) -> None:
    with pytest.raises(YarnRestError, match=f"unexpected answer: {place}: "):
        rm({"/nodes": (200, answer)}).nodes()


@pytest.mark.parametrize(
    "rest", ["", "]", "]}", "]}}x", ",]}}", "[" * 100_000], ids=["cut", "list", "object", "more", "comma", "deep"]
)
def test_a_list_that_is_cut_is_no_json(rm: Callable[[Answers], Blocking], rest: str) -> None:
    whole = recorded("nodes")[1]
    with pytest.raises(RefusedError, match="instead of JSON"):
        rm({"/nodes": (200, whole[: whole.rindex("]")] + rest)}).nodes()


def test_a_list_with_more_beside_it_is_read(rm: Callable[[Answers], Blocking]) -> None:
    answer = json.loads(recorded("nodes")[1])
    answer["nodes"]["total"] = 1
    assert len(rm({"/nodes": (200, json.dumps(answer))}).nodes()) == 1


def test_applications_since(rm: Callable[[Answers], Blocking]) -> None:
    rm({"/apps": recorded("apps")}).apps(["RUNNING"], 12.5)
    assert asked[0][1]["startedTimeBegin"] == ["12500"]
