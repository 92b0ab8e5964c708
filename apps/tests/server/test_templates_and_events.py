"""Templates with their versions, and the stream of events."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import requests
from fastapi.responses import StreamingResponse

from apps.tests.server.fake_cluster import FakeCluster
from apps.tests.server.small_server import HELLO, Client, eventually, served, settings, simple
from quicksilver_apps.server.api.application_routes import ApplicationParts
from quicksilver_apps.server.api.event_routes import event_routes
from quicksilver_apps.server.callers import Caller
from quicksilver_apps.server.lifecycle.event_stream import EventStream
from quicksilver_apps.server.lifecycle.journal import EventJournal
from quicksilver_apps.server.records import StateChange
from quicksilver_apps.server.server import AppServer

Served = tuple[FakeCluster, AppServer, Client]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Served]:
    cluster = FakeCluster()
    with served(settings(tmp_path, template_versions=3, event_clients=2, max_templates=2), cluster) as (server, url):
        client = Client(url)
        yield cluster, server, client
        client.close()


def test_a_template_from_its_first_version_to_its_end(lab: Served) -> None:
    cluster, _, client = lab
    made = client("PUT", "/v1/templates/hello", 200, text=HELLO)
    assert (made["version"], made["title"], made["owner"]) == (1, "Says hello", "lab")
    assert made["parameters"]["workers"]["default"] == 2 and made["parameters"]["words"]["default"] is None
    error = client("PUT", "/v1/templates/hello", 422, text=HELLO.replace("core: 1", "core: x"))["error"]
    assert error["message"].startswith("hello:9: services[0].core: ")
    client("PUT", "/v1/templates/hello", 200, text=HELLO.replace("Says hello", "Says more"))
    assert [one["title"] for one in client("GET", "/v1/templates", 200)["items"]] == ["Says more"]
    old = client("GET", "/v1/templates/hello?version=1", 200)
    assert old["text"] == HELLO and [one["version"] for one in old["versions"]] == [2, 1]
    error = client("POST", "/v1/applications", 422, template="hello")["error"]
    assert error["code"] == "description" and "words" in error["message"]
    values = {"words": "good day", "workers": 5}
    one = client("POST", "/v1/applications", 202, template="hello", template_version=1, parameters=values)
    assert (one["template"], one["template_version"], one["title"], one["elastic"]) == ("hello", 1, "Says hello", 5)
    eventually(lambda: cluster.apps)
    (app,) = cluster.apps.values()
    assert app.order.application.services[0].command == "echo good day"
    client("DELETE", "/v1/templates/hello", 204)
    assert client("GET", "/v1/templates", 200)["items"] == []
    assert client("GET", "/v1/templates/hello", 404)["error"]["code"] == "unknown-template"
    assert client("GET", "/v1/templates/hello?version=2", 200)["title"] == "Says more"
    assert client("POST", "/v1/applications", 404, template="hello")["error"]["code"] == "unknown-template"


def test_templates_and_their_versions_are_bounded(lab: Served) -> None:
    _, _, client = lab
    for _ in range(5):
        made = client("PUT", "/v1/templates/a", 200, text=HELLO)
    assert [one["version"] for one in made["versions"]] == [5, 4, 3]
    client("PUT", "/v1/templates/b", 200, text=HELLO)
    assert client("PUT", "/v1/templates/c", 409, text=HELLO)["error"]["code"] == "too-many-templates"
    assert client("PUT", "/v1/templates/Not-A-Name", 422, text=HELLO)["error"]["code"] == "invalid"


def events(client: Client, count: int, query: str = "", **headers: str) -> list[tuple[int, dict[str, Any]]]:
    """Return the next events of the stream."""
    found: list[tuple[int, dict[str, Any]]] = []
    with requests.get(f"{client.url}/v1/events{query}", stream=True, timeout=20, headers=headers) as answer:
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
        seq = 0
        for line in answer.iter_lines(decode_unicode=True):
            if line.startswith("id: "):
                seq = int(line[4:])
            if line.startswith("data: "):
                found.append((seq, json.loads(line[6:])))
            if len(found) == count:
                break
    return found


def test_the_stream_has_each_change_once_and_goes_on_where_it_stopped(lab: Served) -> None:
    cluster, server, client = lab
    got: list[tuple[int, dict[str, Any]]] = []
    reader = threading.Thread(target=lambda: got.extend(events(client, 5)))
    reader.start()
    eventually(lambda: len(server.stream) == 1)
    one = client("POST", "/v1/applications", 202, description=simple())["id"]
    client.until_state(one, "accepted")
    reader.join(20)
    assert [change["target"] for _, change in got] == ["received", "checked", "submitting", "submitted", "accepted"]
    assert [seq for seq, _ in got] == [change["seq"] for _, change in got]
    cluster.start(next(iter(cluster.apps)))
    client.until_state(one, "ready")
    later = events(client, 3, **{"Last-Event-ID": str(got[3][0])})
    assert [change["target"] for _, change in later] == ["accepted", "starting", "ready"]
    assert [change["target"] for _, change in events(client, 1, f"?after=0&app={one}")] == ["received"]
    eventually(lambda: len(server.stream) == 0)


def test_the_clients_of_the_stream_are_bounded(lab: Served) -> None:
    _, server, client = lab
    held = [requests.get(f"{client.url}/v1/events", stream=True, timeout=20) for _ in range(2)]
    eventually(lambda: len(server.stream) == 2)
    assert client("GET", "/v1/events", 429)["error"]["code"] == "too-many-clients"
    for one in held:
        one.close()
    one = client("POST", "/v1/applications", 202, description=simple())["id"]
    client.until_state(one, "accepted")
    eventually(lambda: len(server.stream) == 0)


@pytest.mark.parametrize("last", ["\u00b2", "9" * 30, "9" * 15, "-1", "x", ""])
def test_a_client_whose_last_event_is_none_takes_no_place_for_good(lab: Served, last: str) -> None:
    """With a digit that is no number the call failed, and its place among the listeners was never given back."""
    _, server, client = lab
    for _ in range(3):
        with requests.get(f"{client.url}/v1/events", headers={"Last-Event-ID": last}, stream=True, timeout=20) as one:
            assert one.status_code == 200 and next(one.iter_lines()) == b": quicksilver"
        client("POST", "/v1/applications", 202, description=simple())  # a line that the client does not read
        eventually(lambda: len(server.stream) == 0)


def test_an_answer_that_never_begins_takes_no_place() -> None:
    """Its client may have gone before the first line: then nothing ever ends the answer."""
    stream, nothing = EventStream(clients=2, limit=10), cast(Any, None)
    journal = EventJournal(nothing, stream, nothing)
    (route,) = event_routes(ApplicationParts(nothing, journal, nothing, nothing, nothing, nothing)).routes
    answer = asyncio.run(cast(Any, route).endpoint(Caller("alice", "open"), "", None, ""))
    assert isinstance(answer, StreamingResponse) and len(stream) == 0


@pytest.mark.parametrize("number", [10**30, 2**63, 2**31])
def test_numbers_beyond_all_bounds_are_invalid(lab: Served, number: int) -> None:
    """The store took none of them: the calls ended with 500 and a traceback in the log."""
    _, _, client = lab
    client("PUT", "/v1/templates/hello", 200, text=HELLO)
    for resources in ({"memory_mb": number}, {"memory_mb": 1, "vcores": number}):
        described = simple()
        described["services"][0]["resources"] = resources
        answer = client("POST", "/v1/check", 200, description=described)
        assert not answer["ok"] and "choose a value of the range 1..1" in answer["mistakes"][0]
        client("POST", "/v1/applications", 422, description=described)
    client("POST", "/v1/applications", 422, template="hello", template_version=number)
    client("GET", f"/v1/templates/hello?version={number}", 422)
    one = client("POST", "/v1/applications", 202, description=simple())["id"]
    client("GET", f"/v1/applications/{one}/logs/work/{number}", 422)
    client("GET", f"/v1/events?after={max(number, 10**15)}", 422)


def test_a_slow_listener_is_late_and_takes_no_more_memory() -> None:
    stream = EventStream(1, 2)
    listener = stream.listen(lambda change: change.user == "ann")
    assert listener is not None and stream.listen(lambda change: True) is None
    for seq in range(1, 6):
        stream.publish(StateChange(seq, "a", "ann" if seq != 2 else "bob", "n", 0.0, "", "received", ""))
    assert listener.late and [listener.queue.get_nowait().seq for _ in range(2)] == [1, 3] and listener.queue.empty()
    stream.leave(listener)
    assert len(stream) == 0
