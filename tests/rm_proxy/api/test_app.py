from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.types import Scope

from policies.model import NodeView, QueueView, Resources
from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.messages import (
    Ack,
    ContainerEvent,
    ContainerReport,
    ContainerState,
    Draining,
    EventKind,
    ReloadAnswer,
    ReloadRequest,
    Report,
)
from quicksilver.common.settings.reload import How, ReloadRefusedError
from rm_proxy.api.app import ApiParts, create_app
from rm_proxy.api.live_state import LiveState
from rm_proxy.api.report_connections import ReportConnections
from rm_proxy.coordinator.error_budget import Order
from rm_proxy.domain.records import AppRecord, CompletionRecord, DecisionRecord, GrantRecord
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.store.queries import History
from rm_proxy.store.rows import NodeEvent
from rm_proxy.store.store import Store
from rm_proxy.views.cluster_models import ApplicationInfo, NodeDetail, NodeInfo, QueueDetail, QueueInfo
from rm_proxy.views.container_models import LiveContainer
from rm_proxy.views.delays import OpenWaits
from rm_proxy.views.service_models import ActivePolicy, BypassInfo, ComparisonInfo, Health, PoliciesInfo
from tests.paths import DOCS
from tests.rm_proxy.records import grant_record

APP = "application_1_0001"
VIEW = NodeView(
    "n1:1",
    "n1",
    "/r1",
    capacity=Resources(4096, 4),
    used_g=Resources(1024, 1),
    queue_length=2,
    queued_s=3.5,
    usable=False,
    containers=3,
    slots=8,
    attained_sd_s=12.5,
)
WAITING = ContainerReport(
    container_id="container_1_0001_01_000003",
    app_id=APP,
    kind="Q",
    state=ContainerState.WAITING,
    memory_mb=512,
    vcores=1,
    since_s=2.5,
    why="memory: 512 MB wanted, 100 MB free",
)


class State:
    """A proxy that knows one node, one application and one queue; it stands for LiveState as well."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.live = WAITING
        self.history = History(store)
        self.metrics = ProxyMetrics()
        self.reports: list[Report] = []
        self.drained: list[tuple[str, Draining]] = []

    def open_waits(self, now_s: float, app_id: str | None = None) -> OpenWaits:
        return OpenWaits(q=[(62.0, 17)] if app_id is None else ())

    def nodes(self) -> Sequence[NodeInfo]:
        return [NodeInfo.of(VIEW, why_unusable="its sidecar is silent"), NodeInfo.of(NodeView("n2:1", "n2"))]

    def node(self, node_id: str) -> NodeDetail | None:
        return NodeDetail(**NodeInfo.of(VIEW).model_dump(), containers=[WAITING]) if node_id == VIEW.id else None

    def applications(self) -> Sequence[ApplicationInfo]:
        return [ApplicationInfo(id=f"application_1_{n:04}", wanted_q=n) for n in range(2, 5)]

    def application(self, app_id: str) -> ApplicationInfo | None:
        return next((app for app in self.applications() if app.id == app_id), None)

    def queue_names(self) -> Sequence[str]:
        return ["root.a"]

    def queues(self) -> Sequence[QueueInfo]:
        view = QueueView("root.a", Resources(4096, 4), labels=frozenset("xg"), user_used_q={"ann": Resources(512, 1)})
        return [QueueInfo.of(view, queueable=False)]

    def queue(self, name: str) -> QueueDetail | None:
        return QueueDetail(**self.queues()[0].model_dump()) if name == "root.a" else None

    def policies(self) -> PoliciesInfo:
        return PoliciesInfo(active=[ActivePolicy(slot="place", name="random")], available={"place": ["random"]})

    def recent(self) -> Sequence[DecisionRecord]:
        return [choice(9, slot="steal", container_id="container_9"), choice(8)]

    def health(self) -> Health:
        return Health(
            status="ok",
            version="1",
            started_s=1.0,
            mode="active",
            listen="a:1",
            upstream="b:2",
            rm_web="http://b",
            rm_reachable=True,
            nodes=1,
            nodes_usable=1,
            connections=0,
            attempts=0,
        )

    def container(self, container_id: str) -> LiveContainer | None:
        live = LiveContainer(node_id="n1:1", report_age_s=0.5, container=self.live)
        return live if container_id == WAITING.container_id else None

    def comparisons(self) -> Sequence[ComparisonInfo]:
        return [
            ComparisonInfo(
                alternative="wide",
                slot="place",
                policy="random",
                active="topk_wait",
                since_s=1.0,
                decisions=4,
                differ=1,
                differ_percent=25.0,
                wait_less_s=-0.5,
                faults=0,
                left_out=2,
                examples=[],
            )
        ]

    async def reload(self, who: str, how: How, request: ReloadRequest) -> ReloadAnswer:
        if request.file == "bad.yaml":
            raise ReloadRefusedError(("bad.yaml:1:1: no", "bad.yaml:2:1: nor this"))
        return ReloadAnswer(file=f"{who} {how}", version="2-b", before="1-a")

    async def check(self, file: str) -> ReloadAnswer:
        return await self.reload("nobody", "rest", ReloadRequest(file=file))

    async def drain(self, node_id: str, wanted: Draining, who: str) -> None:
        assert who
        self.drained.append((node_id, wanted))

    def bypass(self) -> BypassInfo:
        return BypassInfo(order="auto", phase="active", why="", applications={})

    def order_bypass(self, order: Order, who: str) -> BypassInfo:
        raise NotImplementedError

    def report(self, node_id: str, report: Report, scope: Scope) -> Ack:
        if report.boot == "refused":
            raise ApiError(409, "busy", "not now")
        self.reports.append(report)
        return Ack(events_to=max((event.seq for event in report.events), default=0), drop=["container_x"])


def app_of(state: State, **settings: Any) -> FastAPI:
    names = ("history", "metrics", "recent", "health", "bypass", "order_bypass", "reload", "check", "drain", "report")
    connections = ReportConnections(state.report, lambda node_id: True)
    others = {name: getattr(state, name) for name in names}
    parts = ApiParts(live=cast(LiveState, state), report_connections=connections, **others)
    return create_app(parts, **settings)


def grant(number: int, **changes: Any) -> GrantRecord:
    values: dict[str, Any] = {
        "route_reason": "rule 2: queue root.a",
        "wanted_node": "n2:1",
        "place_reason": "least wait of 50 drawn",
        "scores": (("n2:1", 0.5), ("n1:1", 1.25)),
        "asked_s": 1000.0,
        "granted_s": 1000.004,
    }
    return grant_record(f"container_1_0001_01_{number:06}", **(values | changes))


def choice(number: int, **changes: Any) -> DecisionRecord:
    values: dict[str, Any] = {
        "id": f"d{number}",
        "at_s": 1000.0 + number,
        "slot": "quota",
        "policy": "absolute",
        "app_id": APP,
        "container_id": "",
        "node_id": "",
        "chosen": "G",
        "reason": "its quota is 3",
    }
    return DecisionRecord(**(values | changes))


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    store = Store(f"sqlite:///{tmp_path / 'p.db'}")
    store.open()
    done = grant(1).container_id
    events = [
        ContainerEvent(seq=1, container_id=done, kind=EventKind.HELD, at_s=1000.1),
        ContainerEvent(seq=2, container_id=done, kind=EventKind.STARTED, at_s=1002.1, waited_s=2.0),
        ContainerEvent(seq=3, container_id=done, kind=EventKind.KILLED, at_s=1009.0, reason="room for G", ran_s=6.9),
    ]
    end = CompletionRecord(done, APP, -102, -105, "made room", 1010.0)
    app = AppRecord(APP, "root.a", "ann", "MAPREDUCE", "wordcount", (), 0, 999.0, 1100.0)
    store.write([app, grant(1), grant(3), end, *(NodeEvent("n1:1", "boot", event) for event in events)])
    yield State(store)
    store.close()


@pytest.fixture
def client(state: State) -> TestClient:
    return TestClient(app_of(state, max_body_bytes=100_000, now=lambda: 1010.0), raise_server_exceptions=False)


def report(**changes: Any) -> dict[str, Any]:
    values = {"node_id": "n1:1", "boot": "b", "seq": 1, "sidecar_url": "http://n1:8391", "memory_mb": 4096, "vcores": 4}
    return values | changes


def test_nodes_and_one_node(client: TestClient) -> None:
    page = client.get("/v1/nodes").json()
    first, second = page["items"]
    assert (page["offset"], page["more"], second["id"]) == (0, False, "n2:1")
    assert (first["host"], first["rack"], first["usable"]) == ("n1", "/r1", False)
    assert (first["capacity"], first["queued_s"]) == ({"memory_mb": 4096, "vcores": 4}, 3.5)
    assert (first["container_count"], first["slots"], first["attained_sd_s"]) == (3, 8, 12.5)
    assert (second["container_count"], second["slots"], second["shrunk"]) == (0, 0, 0)
    assert first["why_unusable"] == "its sidecar is silent" and first["report_age_s"] is None
    assert client.get("/v1/nodes/n1:1").json()["containers"][0]["why"] == WAITING.why
    missing = client.get("/v1/nodes/n9:1")
    assert missing.status_code == 404
    assert missing.json() == {"error": {"code": "unknown-node", "message": "there is no node n9:1"}}


def test_pages(client: TestClient) -> None:
    page = client.get("/v1/applications", params={"limit": 2, "offset": 1}).json()
    assert [app["id"][-1] for app in page["items"]] == ["3", "4"] and not page["more"]
    assert client.get("/v1/applications", params={"limit": 2}).json()["more"]
    for bad in ({"limit": 0}, {"limit": 1001}, {"offset": -1}):
        answer = client.get("/v1/applications", params=bad)
        assert answer.status_code == 422 and f"query.{next(iter(bad))}: " in answer.json()["error"]["message"]


def test_queues_policies_and_health(client: TestClient) -> None:
    (queue,) = client.get("/v1/queues").json()["items"]
    assert (queue["labels"], queue["queueable"], queue["user_used_q"]["ann"]["memory_mb"]) == (["g", "x"], False, 512)
    assert client.get("/v1/queues/root.a").json()["users"] == []
    gone = client.get("/v1/queues/root.b")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "unknown-queue")
    assert client.get("/v1/policies").json()["active"][0]["name"] == "random"
    assert client.get("/v1/health").json()["status"] == "ok"


def test_an_application_live_finished_or_unknown(client: TestClient) -> None:
    assert client.get("/v1/applications/application_1_0002").json()["wanted_q"] == 2
    finished = client.get(f"/v1/applications/{APP}").json()
    assert (finished["name"], finished["finished_s"], finished["live_q"]) == ("wordcount", 1100.0, 0)
    assert client.get("/v1/applications/application_9").json()["error"]["code"] == "unknown-application"


def test_decisions_and_summary(client: TestClient) -> None:
    page = client.get("/v1/decisions", params={"app": APP, "limit": 1}).json()
    assert page["more"] and page["items"][0]["container_id"].endswith("3")
    one = client.get("/v1/decisions", params={"container": grant(1).container_id}).json()["items"]
    assert one[0]["scores"] == [{"node": "n2:1", "score": 0.5}, {"node": "n1:1", "score": 1.25}]
    whole = client.get("/v1/summary").json()
    assert (whole["queueable"], whole["queueing"]["p50_s"], whole["events"]["killed"]) == (2, 2.0, 1)
    q = whole["allocation_q"]
    assert (q["count"], q["waiting"], q["p50_s"], q["max_s"]) == (19, 17, 62.0, 62.0), "17 wait for 62 s so far"
    assert client.get("/v1/summary", params={"last_s": 5}).json()["queueable"] == 0


def test_estimates(client: TestClient, state: State) -> None:
    assert client.get("/v1/estimates").json()["buckets"] == [], "a killed container did not end by itself"
    ended = ContainerEvent(seq=4, container_id=grant(3).container_id, kind=EventKind.ENDED, at_s=1005.0, ran_s=8.0)
    state.history._store.write([NodeEvent("n1:1", "boot", ended)])
    answer = client.get("/v1/estimates", params={"since_s": 1000, "bucket_s": 2}).json()
    assert [(one["from_s"], one["count"], one["bias"]) for one in answer["buckets"]] == [(1004.0, 1, 0.25)]
    assert client.get("/v1/estimates", params={"app_id": "application_9"}).json()["all"] is None
    for bad in ({"bucket_s": 0}, {"since_s": -1}, {"bucket_s": "nan"}):
        assert client.get("/v1/estimates", params=bad).status_code == 422


def test_explaining_a_finished_container(client: TestClient) -> None:
    known = client.get(f"/v1/containers/{grant(1).container_id}").json()
    assert known["story"] == [
        "It was requested as queueable: rule 2: queue root.a.",
        "It was allocated on n1:1 4 ms after the request.",
        "It was requested on n2:1; the ResourceManager allocated it elsewhere.",
        "Why this node: least wait of 50 drawn.",
        "Candidates (s, lower is better): n2:1 0.5, n1:1 1.25.",
        "At n1:1 it was queued.",
        "At n1:1 the NodeManager started it after 2.0 s in the queue.",
        "At n1:1 it was preempted: killed to make room after 6.9 s (room for G).",
        "Its application master received exit status -102 (the ResourceManager gave -105): made room",
    ]
    assert known["application"]["name"] == "wordcount" and known["live"] is None


def test_explaining_one_that_waits_now_and_one_that_nobody_knows(client: TestClient) -> None:
    known = client.get(f"/v1/containers/{WAITING.container_id}").json()
    assert known["story"][-1] == "It has been queued at n1:1 for 2.5 s: memory: 512 MB wanted, 100 MB free."
    answer = client.get("/v1/containers/container_9")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown-container")


SHRUNK = WAITING.model_copy(
    update={
        "state": ContainerState.SHRUNK,
        "why": "container_9 attained less",
        "attained_s": 61.25,
        "cores": 0.05,
        "times_shrunk": 2,
        "shrunk_by": "container_9",
    }
)


@pytest.mark.parametrize(
    ("known", "sentences"),
    [
        (
            SHRUNK,
            [
                "It has been shrunk at n1:1 for 2.5 s: container_9 attained less.",
                "It used 61.2 s of CPU so far, and may use 0.05 cores now.",
                "It was shrunk 2 times; the last time 3.0 s ago, container_9 took its place.",
            ],
        ),
        (
            SHRUNK.model_copy(update={"state": ContainerState.RUNNING, "why": "", "cores": None, "shrunk_ago_s": 70.0}),
            [
                "It has been running at n1:1 for 2.5 s.",
                "It used 61.2 s of CPU so far.",
                "It was shrunk 2 times; the last time 70.5 s ago, container_9 took its place.",
            ],
        ),
        (
            SHRUNK.model_copy(update={"state": ContainerState.RUNNING, "why": "", "times_shrunk": 1, "shrunk_by": ""}),
            [
                "It has been running at n1:1 for 2.5 s.",
                "It used 61.2 s of CPU so far, and may use 0.05 cores now.",
                "It was shrunk once.",
            ],
        ),
    ],
)
def test_explaining_one_that_was_shrunk(
    client: TestClient, state: State, known: ContainerReport, sentences: list[str]
) -> None:
    state.live = known
    answer = client.get(f"/v1/containers/{known.container_id}").json()
    assert answer["story"][-len(sentences) :] == sentences
    assert answer["live"]["container"]["shrunk_by"] == known.shrunk_by


def test_explaining_what_an_ended_one_was_given(client: TestClient, state: State) -> None:
    cid = "container_1_0001_01_000099"
    for seq, fields in enumerate(({"attained_s": 6.0, "times_shrunk": 1}, {"attained_s": 6.0}, {}), 10):
        end = ContainerEvent(seq=seq, container_id=cid, kind=EventKind.ENDED, at_s=2000.0 + seq, ran_s=20.0, **fields)
        state.store.write([NodeEvent("n1:1", "boot", end)])
    assert client.get(f"/v1/containers/{cid}").json()["story"] == [
        "At n1:1 its process ended after 20.0 s, used 6.0 s of CPU, shrunk once.",
        "At n1:1 its process ended after 20.0 s, used 6.0 s of CPU.",
        "At n1:1 its process ended after 20.0 s.",
    ]


def test_a_report_is_taken_and_acknowledged(client: TestClient, state: State) -> None:
    event = {"seq": 7, "container_id": "c", "kind": "held", "at_s": 1.0}
    answer = client.post("/v1/nodes/n1:1/report", json=report(events=[event]))
    assert answer.json() == {
        "events_to": 7,
        "active": True,
        "drop": ["container_x"],
        "drop_reason": "",
        "known": [],
        "targets": None,
        "shed": [],
        "drain": None,
        "promoted": [],
    }
    assert state.reports[0].events[0].kind is EventKind.HELD


def test_what_a_newer_sidecar_says_besides_is_passed_over() -> None:
    newer = report(extra=1, events=[{"seq": 1, "container_id": "c", "kind": "held", "at_s": 1, "new": 2}])
    assert Report.model_validate(newer) == Report.model_validate(
        report(events=[{k: v for k, v in newer["events"][0].items() if k != "new"}])
    )
    older = Ack.model_validate(Ack(events_to=3).model_dump() | {"new": True})
    assert older == Ack(events_to=3)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (report(vcores="many"), 422, "body.vcores: Input should be a valid number"),
        (report(node_id="n2:1"), 422, "body.node_id: is n2:1, the path says n1:1"),
        (report(events=[{"seq": 1}]), 422, "body.events.0.container_id: Field required"),
        (report(limits=["x" * 100_000]), 413, "more than 100000 bytes"),
        (report(boot="refused"), 409, "not now"),
        ([], 422, "body: Input should be a valid dictionary"),
    ],
)
def test_a_bad_report_names_the_field(
    client: TestClient, state: State, body: object, status: int, message: str
) -> None:
    answer = client.post("/v1/nodes/n1:1/report", json=body)
    assert answer.status_code == status and message in answer.json()["error"]["message"]
    assert state.reports == []


def test_a_store_that_is_out_is_a_503_and_the_rest_goes_on(state: State, tmp_path: Path) -> None:
    broken = Store(f"sqlite:///{tmp_path / 'empty.db'}")
    state.history = History(broken)
    client = TestClient(app_of(state), raise_server_exceptions=False)
    kept = ("/v1/choices", "/v1/applications/a/story", "/v1/ledger", "/v1/ledger.csv")
    for path in ("/v1/decisions", "/v1/summary", "/v1/containers/c", "/v1/applications/a", *kept):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store-unavailable")
        assert "empty.db: unable to open" in answer.json()["error"]["message"], "reading makes no file"
    assert client.get("/v1/nodes").status_code == 200
    assert [c["id"] for c in client.get("/v1/choices", params={"recent": True}).json()["items"]] == ["d9", "d8"]
    broken.close()


def test_metrics_are_prometheus_text(client: TestClient, state: State) -> None:
    state.metrics.grants.labels("Q").inc(3)
    state.metrics.set_gauges = lambda: state.metrics.attempts.set(5)
    answer = client.get("/metrics")
    assert "quicksilver_proxy_attempts 5.0" in answer.text, "gauges are set when they are read"
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'quicksilver_proxy_grants_total{kind="Q"} 3.0' in answer.text
    names = {line.split()[2] for line in answer.text.splitlines() if line.startswith("# TYPE")}
    assert names and all(name.startswith("quicksilver_proxy_") for name in names)


def test_openapi_describes_every_route_and_its_errors(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) == {
        "/v1/nodes",
        "/v1/cluster/history",
        "/v1/kills",
        "/v1/nodes/{node_id}/timeline",
        "/v1/nodes/{node_id}",
        "/v1/nodes/{node_id}/drain",
        "/v1/nodes/{node_id}/keys",
        "/v1/nodes/{node_id}/report",
        "/v1/applications",
        "/v1/applications/{app_id}",
        "/v1/queues",
        "/v1/queues/{name}",
        "/v1/policies",
        "/v1/policies/changes",
        "/v1/policies/compare",
        "/v1/policies/reload",
        "/v1/bypass",
        "/v1/health",
        "/v1/decisions",
        "/v1/summary",
        "/v1/estimates",
        "/v1/containers/{container_id}",
        "/v1/choices",
        "/v1/applications/{app_id}/story",
        "/v1/applications/{app_id}/waiting",
        "/v1/applications/{app_id}/waits",
        "/v1/applications/{app_id}/containers",
        "/v1/events",
        "/v1/admission",
        "/v1/queue-tree",
        "/v1/queues/{name}/history",
        "/v1/policies/check",
        "/v1/policies/rollout",
        "/v1/ledger",
        "/v1/ledger.csv",
        "/v1/prometheus/targets",
        "/metrics",
    }
    for methods in described["paths"].values():
        for method in methods.values():
            assert method["summary"] and "404" in method["responses"]
    assert {"Report", "Ack", "Explanation", "ErrorEnvelope"} <= set(described["components"]["schemas"])


def test_reports_with_many_containers_are_taken(client: TestClient, state: State) -> None:
    containers = [WAITING.model_dump(mode="json") | {"container_id": f"c{n}"} for n in range(100)]
    body = Report(**report(containers=containers)).model_dump_json()
    for _ in range(20):
        assert client.post(
            "/v1/nodes/n1:1/report", content=body, headers={"Content-Type": "application/json"}
        ).is_success
    assert [len(one.containers) for one in state.reports] == [100] * 20


def test_targets_for_prometheus(client: TestClient, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [NodeInfo.of(VIEW, sidecar_url="https://n1:8391"), NodeInfo.of(NodeView("n2:1", "n2"))]
    monkeypatch.setattr(state, "nodes", lambda: nodes)
    groups = client.get("/v1/prometheus/targets").json()
    meta = "__meta_quicksilver_"
    assert groups == [
        {"targets": ["testserver"], "labels": {"__scheme__": "http", f"{meta}part": "proxy"}},
        {
            "targets": ["n1:8391"],
            "labels": {
                "__scheme__": "https",
                f"{meta}part": "sidecar",
                f"{meta}node": "n1:1",
                f"{meta}host": "n1",
                f"{meta}rack": "/r1",
                f"{meta}label": "",
            },
        },
    ], "a node whose sidecar never reported is no target"
    assert client.get("/v1/prometheus/targets?part=sidecar").json() == groups[1:]
    assert client.get("/v1/prometheus/targets?part=node").status_code == 422


def test_every_route_and_every_metric_is_in_the_docs(client: TestClient, state: State) -> None:
    rest, operations = (DOCS / "rest.md").read_text(), (DOCS / "operations.md").read_text()
    paths = client.get("/openapi.json").json()["paths"]
    assert [f"{m} {p}" for p, methods in paths.items() for m in methods if f"`{m.upper()} {p}`" not in rest] == []
    ends = {"counter": "_total", "info": "_info"}
    names = [f"{f.name}{ends.get(f.type, '')}" for f in state.metrics.registry.collect() if "_process_" not in f.name]
    assert names and [name for name in names if f"| `{name}` |" not in operations] == []
