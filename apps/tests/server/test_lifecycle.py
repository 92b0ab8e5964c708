"""Applications from their submission to their end, over REST, before a cluster that the test moves."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.tests.server.fake_cluster import FakeCluster
from apps.tests.server.small_server import HELLO, Client, eventually, served, settings, simple
from quicksilver_apps.server.server import AppServer
from quicksilver_apps.server.states import ENDED, MOVES, State, UnexpectedStateError, check_move, diagram
from tests.paths import DOCS

Served = tuple[FakeCluster, AppServer, Client]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Served]:
    cluster = FakeCluster()
    with served(settings(tmp_path), cluster) as (server, url):
        client = Client(url)
        yield cluster, server, client
        client.close()


def submit(client: Client, **fields: Any) -> dict[str, Any]:
    answer: dict[str, Any] = client("POST", "/v1/applications", 202, **({"description": simple()} | fields))
    return answer


def test_the_docs_draw_the_table() -> None:
    text = (DOCS / "app-server.md").read_text()
    (drawn,) = re.findall(r"<!-- states -->\n```mermaid\n(.*?)\n```\n<!-- /states -->", text, re.DOTALL)
    assert drawn == diagram(), "write diagram() between the two marks of docs/app-server.md"


def test_nothing_follows_an_end_and_each_state_is_reached() -> None:
    assert not [move for move in MOVES if move[0] in ENDED]
    assert {target for _, target in MOVES} == set(State)
    with pytest.raises(UnexpectedStateError):
        check_move(State.FINISHED, State.QUEUED)


def test_an_application_that_succeeds(lab: Served) -> None:
    cluster, _, client = lab
    made = submit(client)
    assert made["state"] == "received" and made["user"] == "lab" and made["memory_mb"] == 256 + 128
    yarn_id = client.until_state(made["id"], "accepted")["yarn_id"]
    order = cluster.apps[yarn_id].order
    assert order.tags == (f"quicksilver_request:{made['id']}",) and order.user == "lab" and len(order.key) >= 32
    cluster.start(yarn_id)
    found = client.until_state(made["id"], "ready")
    assert found["live"] and [(one["name"], one["ready"], len(one["instances"])) for one in found["services"]] == [
        ("work", 3, 3)
    ]
    assert order.key not in str(found), "the master's secret is nobody's"
    cluster.end(yarn_id, diagnostics="all done\nat last")
    found = client.until_state(yarn_id, "finished")
    assert found["why"] == "all done" and not found["live"] and found["services"][0]["ready"] == 3
    history = client("GET", f"/v1/applications/{made['id']}/history", 200)
    assert [one["target"] for one in history["changes"]] == [
        "received",
        "checked",
        "submitting",
        "submitted",
        "accepted",
        "starting",
        "ready",
        "finished",
    ]
    assert [one["seq"] for one in history["changes"]] == sorted(one["seq"] for one in history["changes"])
    assert len(history["instances"]) == 3 and all(one["ended_s"] and one["ready_s"] for one in history["instances"])


def test_ends_that_are_no_success(lab: Served) -> None:
    cluster, _, client = lab
    failed, lost, refused, gone = (submit(client, description=simple(name))["id"] for name in ("f", "l", "r", "g"))
    for one in (failed, lost, refused, gone):
        client.until_state(one, "accepted")
    ids = {one: client("GET", f"/v1/applications/{one}", 200)["yarn_id"] for one in (failed, lost, refused, gone)}
    cluster.end(ids[failed], succeeded=False, diagnostics="the main service failed")
    del cluster.apps[ids[lost]]
    cluster.start(ids[refused])
    client.until_state(refused, "ready")
    cluster.apps[ids[refused]].ready = False
    client.until_state(refused, "starting")
    cluster.set(ids[refused], state="accepted")
    client.until_state(refused, "accepted")
    assert client.until_state(failed, "failed")["why"] == "the main service failed"
    assert client.until_state(lost, "lost")["why"] == "YARN does not know it any more"
    assert client.state(gone) == "accepted"


def test_what_can_never_run_is_refused(lab: Served) -> None:
    cluster, _, client = lab
    large = simple("large", services=[{"name": "a", "core": 1, "command": "x", "resources": {"memory_mb": 99_999}}])
    found = client.until_state(submit(client, description=large)["id"], "refused")
    assert found["why"] == (
        "an instance of a wants 99999 MB and 1 vcores; the cluster grants 8192 MB and 4 vcores at most"
    )
    cluster.refuses = "the queue x is unknown"
    found = client.until_state(submit(client)["id"], "failed")
    assert found["why"] == "refused: the queue x is unknown" and cluster.apps == {}


@pytest.mark.long
def test_a_kill_in_each_state(lab: Served) -> None:
    cluster, server, client = lab
    cluster.away = True
    waiting = submit(client)["id"]
    assert client("POST", f"/v1/applications/{waiting}/kill", 202, reason="a mistake")["state"] == "killed"
    assert client("GET", f"/v1/applications/{waiting}", 200)["why"] == "killed by lab: a mistake"
    cluster.away = False
    accepted, running, silent = (submit(client)["id"] for _ in range(3))
    for one in (accepted, running, silent):
        client.until_state(one, "accepted")
    yarn_ids = {one: client("GET", f"/v1/applications/{one}", 200)["yarn_id"] for one in (accepted, running, silent)}
    for one in (running, silent):
        cluster.start(yarn_ids[one])
        client.until_state(one, "ready")
    client("POST", f"/v1/applications/{accepted}/kill", 202, reason="")
    client.until_state(accepted, "killed")
    assert cluster.kills == [(yarn_ids[accepted], "lab")], "without a master YARN kills it"
    client("POST", f"/v1/applications/{running}/kill", 202, reason="enough")
    assert client.until_state(running, "killed")["why"] == "killed by lab: enough"
    assert len(cluster.kills) == 1 and cluster.keys == [cluster.apps[yarn_ids[running]].order.key]
    cluster.obedient = False
    client("POST", f"/v1/applications/{silent}/kill", 202, reason="")
    assert client.state(silent) == "ending"
    client.until_state(silent, "killed")
    assert cluster.kills[-1] == (yarn_ids[silent], "lab"), "a master that does not end is killed by YARN"
    client("POST", f"/v1/applications/{silent}/kill", 202, reason="again")
    assert client.state(silent) == "killed"
    assert server.health().status == "ok"


def test_scaling_asks_the_master(lab: Served) -> None:
    cluster, _, client = lab
    one = submit(client)["id"]
    refused = client("PUT", f"/v1/applications/{one}/scale", 409, service="work", count=1)
    assert refused["error"]["code"] == "not-running"
    yarn_id = client.until_state(one, "accepted")["yarn_id"]
    cluster.start(yarn_id)
    client.until_state(one, "ready")
    assert client("PUT", f"/v1/applications/{one}/scale", 200, service="work", count=0)["wanted"] == 1
    assert cluster.keys == [cluster.apps[yarn_id].order.key]
    eventually(lambda: len(client("GET", f"/v1/applications/{one}", 200)["services"][0]["instances"]) == 1)
    over = client("PUT", f"/v1/applications/{one}/scale", 400, service="work", count=3)["error"]
    assert over == {"code": "out-of-range", "message": "3 is outside 0..2"}
    assert client("PUT", f"/v1/applications/{one}/scale", 404, service="none", count=0)["error"]["code"]
    cluster.masters_away = True
    assert client("PUT", f"/v1/applications/{one}/scale", 503, service="work", count=0)["error"]["code"] == (
        "cluster-unavailable"
    )
    eventually(lambda: client("GET", f"/v1/applications/{one}", 200)["live"] is False)


def test_logs(lab: Served) -> None:
    cluster, _, client = lab
    one = submit(client)["id"]
    path = f"/v1/applications/{one}/logs/work/1"
    assert client("GET", path, 404)["error"]["code"] == "unknown-instance"
    yarn_id = client.until_state(one, "accepted")["yarn_id"]
    cluster.start(yarn_id)
    client.until_state(one, "ready")
    assert client("GET", path, 200).startswith("stdout of container_1700000000000_0001_01_100001\n")
    assert "stderr of" in client("GET", f"{path}?file=stderr", 200)
    assert client("GET", f"{path}?file=other", 404)["error"]["code"] == "unknown-file"
    assert client("GET", f"{path}?file=..%2Fx", 422)["error"]["code"] == "invalid"
    assert len(client("GET", f"{path}?kb=1", 200)) == 1024


def test_mistakes_of_a_description_come_with_their_lines(lab: Served) -> None:
    _, _, client = lab
    text = HELLO.replace("memory_mb: 512", "memory: 512")
    error = client("POST", "/v1/applications", 422, description=text, parameters={"words": "x"})["error"]
    assert error["code"] == "description" and all(
        line.startswith("description:17: ") for line in error["message"].split("\n")
    )
    checked = client("POST", "/v1/check", 200, description=text)
    assert not checked["ok"] and checked["mistakes"] == error["message"].split("\n")
    missing = client("POST", "/v1/check", 200, description=HELLO)
    assert missing["to_give"] == ["words"] and set(missing["parameters"]) == {"workers", "words"}
    right = client("POST", "/v1/check", 200, description=HELLO, parameters={"words": "hi"})
    assert right["ok"] and right["memory_mb"] == 256 + 256 + 512
    local = simple(files=[{"source": "input.csv"}, {"source": "file:///etc/shadow"}])
    error = client("POST", "/v1/applications", 422, description=local)["error"]
    assert error["message"].count("the app server takes files of the cluster alone") == 2
    for body in ({}, {"description": simple(), "template": "x"}, {"description": 5}):
        assert client("POST", "/v1/applications", 422, parameters={}, **body)["error"]["code"] == "invalid"
    assert client("POST", "/v1/applications", 413, description="#" * 300_000)["error"]["code"] == "too-large"
    assert client("GET", "/v1/applications", 200)["items"] == []


def test_a_repeated_request_is_stored_once(lab: Served) -> None:
    _, _, client = lab
    request = str(uuid.uuid4())
    first, again = (submit(client, request_id=request)["id"] for _ in range(2))
    assert first == again == request and len(client("GET", "/v1/applications", 200)["items"]) == 1
    other = client("POST", "/v1/applications", 409, description=simple("other"), request_id=request)
    assert other["error"]["code"] == "other-request"


def test_lists_are_filtered_and_paged(lab: Served) -> None:
    cluster, _, client = lab
    for number in range(5):
        submit(client, description=simple(f"app-{number}", **({"class": "interactive"} if number == 4 else {})))
    eventually(lambda: len(cluster.apps) == 5)
    page = client("GET", "/v1/applications?limit=2&offset=1", 200)
    assert [one["name"] for one in page["items"]] == ["app-3", "app-2"] and page["more"]
    assert [one["name"] for one in client("GET", "/v1/applications?text=PP-1", 200)["items"]] == ["app-1"]
    assert [one["name"] for one in client("GET", "/v1/applications?class=interactive", 200)["items"]] == ["app-4"]
    assert client("GET", "/v1/applications?state=killed&state=failed", 200)["items"] == []
    assert client("GET", "/v1/applications?state=sleeping", 422)["error"]["code"] == "invalid"
    assert client("GET", "/v1/applications?text=%25", 200)["items"] == []
    assert client("GET", f"/v1/applications/{uuid.uuid4()}", 404)["error"]["code"] == "unknown-application"


def test_probes_metrics_and_description_of_rest(lab: Served) -> None:
    cluster, _, client = lab
    submit(client)
    eventually(lambda: cluster.apps)
    eventually(lambda: client("GET", "/healthz", 200)["applications"].get("accepted") == 1)
    assert client("GET", "/readyz", 200) == {"ready": True, "reasons": []}
    metrics = client("GET", "/metrics", 200)
    assert 'quicksilver_app_server_submissions_total{result="stored"} 1.0' in metrics
    assert 'quicksilver_app_server_transitions_total{state="accepted"} 1.0' in metrics
    paths = client("GET", "/openapi.json", 200)["paths"]
    assert {"/v1/applications", "/v1/events", "/v1/templates/{name}", "/v1/quotas", "/v1/check"} <= paths.keys()
    assert client("GET", "/conf?format=json", 200)
    cluster.away = True
    eventually(lambda: client("GET", "/healthz", 200)["status"] == "degraded")
    assert client("GET", "/readyz", 503)["reasons"] == ["rm:8032: no ResourceManager answers; start it"]
    cluster.away = False
    eventually(lambda: client("GET", "/healthz", 200)["status"] == "ok")
