"""What running daemons tell: stand-ins answer REST, and the doctor asks them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from quicksilver.common.process.version import version
from quicksilver.doctor.collect import CollectPlaces, read_files
from quicksilver.doctor.diagnose import diagnose
from quicksilver.doctor.live import daemons
from quicksilver.doctor.live.daemons import ask_daemons
from quicksilver.doctor.model import DoctorProxy, Facts, Finding, Live, Severity
from tests.quicksilver.doctor.words import ALL_Q, Copy, copy_of

NODE = "127.0.0.1:{port}"
QUEUE_LENGTH = "yarn.nodemanager.opportunistic-containers-max-queue-length"


class World:
    """One server that plays ResourceManager, NodeManager, proxy and sidecar; `answers` by path."""

    def __init__(self, folder: Path) -> None:
        self.copy = copy_of(folder, ALL_Q, nodes=1)
        self.answers: dict[str, Any] = {}
        """JSON data; bytes as they are; a text is an address to which a redirect leads."""
        self.asked: list[str] = []
        self.skew_s: dict[str, float] = {}
        """By the beginning of a path."""
        self.counted = True
        """Whether the sidecar counts connections."""
        self._opened = 0
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                world.answer(self)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._fill()

    def answer(self, call: BaseHTTPRequestHandler) -> None:
        path = call.path.partition("?")[0]
        self._opened += self.counted
        self.asked.append(path)
        body: bytes | None = None
        if path.endswith("/metrics"):
            body = f"quicksilver_sidecar_connections_opened_total {float(self._opened)}\n".encode()
        elif path in self.answers:
            said = self.answers[path]
            body = said if isinstance(said, bytes) else json.dumps(said).encode()
        moved = self.answers[path] if isinstance(self.answers.get(path), str) else ""
        call.send_response_only(302 if moved else 200 if body is not None else 404)
        if moved:
            call.send_header("Location", moved)
        skew_s = next((s for start, s in self.skew_s.items() if path.startswith(start)), 0.0)
        call.send_header("Date", formatdate(time.time() + skew_s, usegmt=True))
        call.send_header("Content-Length", str(len(body or b"")))
        call.end_headers()
        call.wfile.write(body or b"")

    def _fill(self) -> None:
        node = NODE.format(port=self.port)
        put = {"yarn.resourcemanager.webapp.address": f"127.0.0.1:{self.port}"}
        self.copy.change("all", "yarn-site.xml", put)
        self.copy.yaml.write_text(ALL_Q.replace("proxy: {", f"proxy: {{rest_listen: '127.0.0.1:{self.port}', "))
        facts = self.files()
        self.answers = {
            "/ws/v1/cluster/info": {"clusterInfo": {"resourceManagerVersion": "3.5.0", "haState": "ACTIVE"}},
            "/ws/v1/cluster/nodes": {"nodes": {"node": [self.node(node)]}},
            "/ws/v1/node/info": {"nodeInfo": {"nodeManagerVersion": "3.5.0"}},
            "/ws/v1/cluster/scheduler": {"scheduler": {"schedulerInfo": {"type": "fifoScheduler"}}},
            "/ws/v1/cluster/apps": {"apps": None},
            "/conf": self.conf({name: facts.rms[0].text(name) for name in facts.rms[0].conf.properties}),
            "/v1/health": {
                "status": "ok",
                "version": version(),
                "listen": "127.0.0.1:18030",
                "upstream": "127.0.0.1:18035",
                "problems": [],
            },
            "/v1/nodes": {"items": [{"id": node, "usable": True, "sidecar_url": f"{self.url}/sidecar"}], "more": False},
            "/sidecar/healthz": {"version": version()},
        }

    def node(self, node: str, state: str = "RUNNING", said: str = "3.5.0") -> dict[str, str]:
        return {"id": node, "state": state, "version": said, "nodeHTTPAddress": f"127.0.0.1:{self.port}"}

    def conf(self, values: dict[str, str], source: str = "yarn-site.xml") -> dict[str, Any]:
        return {"properties": [{"key": k, "value": v, "resource": source} for k, v in values.items()]}

    def files(self) -> Facts:
        copy: Copy = self.copy
        return read_files(CollectPlaces(copy.yaml, copy.conf.client, copy.conf.resourcemanagers))

    def look(self) -> tuple[Facts, list[Finding]]:
        facts = ask_daemons(self.files())
        return facts, diagnose(facts)

    def serious(self) -> dict[str, str]:
        """Return the codes that are more than notes, with what was found."""
        found = [one for one in self.look()[1] if one.severity is not Severity.NOTE]
        ours = [one for one in found if one.places[0].role != "nodemanager" or one.places[0].file != self.nm_conf]
        return {one.code: one.state for one in ours}

    @property
    def nm_conf(self) -> str:
        """The stand-in answers with the ResourceManager's values there, which no NodeManager has."""
        return f"{self.url}/conf"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(daemons, "_SEEN_WITHIN_S", 0.2)
    made = World(tmp_path)
    thread = Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        thread.join()
        made.server.server_close()


def test_all_is_well(world: World) -> None:
    assert world.serious() == {}
    facts, _ = world.look()
    assert facts.live is not None
    assert [node.passes for node in facts.live.nodes] == [True]
    assert [site.url for site in facts.nms] == [f"{world.url}/conf"]
    assert "NodeManagers' files" not in {item.subject for item in facts.unchecked}


def test_a_value_that_is_not_in_force(world: World) -> None:
    values = {row["key"]: row["value"] for row in world.answers["/conf"]["properties"]}
    name = "yarn.resourcemanager.opportunistic-container-allocation.nodes-used"
    world.answers["/conf"] = world.conf(values | {name: "10", "yarn.application.classpath": "other"})
    assert world.serious() == {"restart-pending": f"{name} is 0 in the file, and 10 in the running ResourceManager"}
    notes = [one for one in world.look()[1] if one.code == "restart-pending" and one.severity is Severity.NOTE]
    assert ["yarn.application.classpath" in one.state for one in notes] == [True]
    world.answers["/conf"] = world.conf(values | {name: "10"}, source="programmatically")
    assert world.serious() == {}


@pytest.mark.parametrize(
    ("path", "skew_s", "who"),
    [
        ("/ws/v1/cluster/info", 40.0, "resourcemanager ResourceManager is 40 s ahead of"),
        ("/ws/v1/node/info", -5.0, "nodemanager 127.0.0.1 is 5 s behind"),
        ("/v1/health", 4.0, "proxy {url} is 4 s ahead of"),
        ("/sidecar/healthz", -600.0, "sidecar 127.0.0.1:{port} is 600 s behind"),
    ],
)
def test_clocks(world: World, path: str, skew_s: float, who: str) -> None:
    world.skew_s[path] = skew_s
    found = [one for one in world.look()[1] if one.code == "clock-skew"]
    about = who.format(url=world.url, port=world.port).partition(" is ")[0]
    assert [one.state.startswith(f"the clock of {about} is ") for one in found] == [True]
    assert found[0].severity is (Severity.ERROR if abs(skew_s) >= 15 else Severity.WARNING)
    assert ("ahead of" in found[0].state) is (skew_s > 0)


@pytest.mark.parametrize(
    ("said", "code"),
    [("2.10.2", "hadoop-old"), ("3.0.3", "hadoop-old"), ("3.6.0", "hadoop-unknown"), ("trunk", "hadoop-unknown")],
)
def test_versions(world: World, said: str, code: str) -> None:
    world.answers["/ws/v1/cluster/info"]["clusterInfo"]["resourceManagerVersion"] = said
    found = world.serious()
    if code == "hadoop-old":
        assert found.pop("nodes-used")  # its allocator has nothing else to choose from
    assert found == {code: f"Hadoop {said}"}


@pytest.mark.parametrize("said", ["3.1.1.7.1.9.0-387", "3.2.4"])
def test_the_older_allocator_needs_the_list_of_all_nodes(world: World, said: str) -> None:
    world.answers["/ws/v1/cluster/info"]["clusterInfo"]["resourceManagerVersion"] = said
    (finding,) = [one for one in world.look()[1] if one.code == "nodes-used"]
    name = "yarn.resourcemanager.opportunistic-container-allocation.nodes-used"
    assert finding.why == f"Hadoop {said} grants none with {name}=0; set it to -1"
    assert finding.remedy.put == {name: "-1"}
    (limited,) = [one for one in world.look()[1] if one.code == "hadoop-limited"]
    assert limited.severity is Severity.NOTE and "grants on another one" in limited.why
    world.copy.change("rm", "yarn-site.xml", {name: "-1"})
    values = {row["key"]: row["value"] for row in world.answers["/conf"]["properties"]}
    world.answers["/conf"] = world.conf(values | {name: "-1"})
    assert world.serious() == {}


def test_the_list_of_all_nodes_is_wrong_for_the_central_allocator(world: World) -> None:
    name = "yarn.resourcemanager.opportunistic-container-allocation.nodes-used"
    world.copy.change("rm", "yarn-site.xml", {name: "-1"})
    values = {row["key"]: row["value"] for row in world.answers["/conf"]["properties"]}
    world.answers["/conf"] = world.conf(values | {name: "-1"})
    assert list(world.serious()) == ["nodes-used"]


def test_older_nodes_and_the_leak_are_notes(world: World) -> None:
    world.answers["/ws/v1/cluster/info"]["clusterInfo"]["resourceManagerVersion"] = "3.4.2"
    codes = {one.code for one in world.look()[1] if one.severity is Severity.NOTE}
    assert codes >= {"hadoop-leak", "versions-differ"}


def test_nodes(world: World) -> None:
    row = world.answers["/v1/nodes"]["items"][0]
    row |= {"usable": False, "why_unusable": "no report for 9 s"}
    assert world.serious() == {"node-without-sidecar": "no report for 9 s"}
    world.answers["/v1/nodes"]["items"] = []
    assert world.serious() == {"node-without-sidecar": "the proxy does not know the node"}
    world.answers["/ws/v1/cluster/nodes"]["nodes"]["node"][0]["state"] = "LOST"
    assert world.serious() == {}


def test_a_connection_that_does_not_come_to_the_sidecar(world: World) -> None:
    world.counted = False
    assert world.serious().keys() == {"around-sidecar"}
    world.answers["/sidecar/healthz"]["version"] = "0.0.1"
    assert "quicksilver-versions" in world.serious()


def test_the_proxy(world: World) -> None:
    health = world.answers["/v1/health"]
    health["problems"] = ["the store does not answer; start it"]
    assert world.serious() == {"proxy-degraded": "the store does not answer; start it"}
    health["problems"] = []
    health["upstream"] = "127.0.0.1:1"
    assert world.serious().keys() == {"proxy-elsewhere"}
    health["upstream"] = "127.0.0.1:18035"
    health["version"] = "0.0.1"
    assert world.serious().keys() == {"quicksilver-versions"}
    del world.answers["/v1/health"]
    assert world.serious().keys() == {"proxy-down"}


def test_a_job_that_goes_around_the_proxy(world: World) -> None:
    app = "application_1_0001"
    world.answers["/ws/v1/cluster/apps"] = {"apps": {"app": [{"id": app}]}}
    row = {"name": "yarn.resourcemanager.scheduler.address", "value": "127.0.0.1:18035"}
    path = f"/proxy/{app}/ws/v1/mapreduce/jobs/job_1_0001/conf"
    world.answers[path] = {"conf": {"property": [row]}}
    assert world.serious().keys() == {"job-address"}
    row["value"] = "127.0.0.1:18030"
    assert world.serious() == {}


LIES = (
    b"",
    b"[]",
    b"7",
    b"null",
    b'"x"',
    b"<html>",
    b"[" * 100_000,
    b'{"conf": 5}',
    b'{"conf": {"property": 5}}',
    b'{"conf": {"property": [1]}}',
    b'{"conf": {"property": [{"name": {}, "value": []}]}}',
    b'{"conf": {"property": {"name": "x"}}}',
)


def test_an_application_master_that_lies_ends_no_check(world: World) -> None:
    """The ResourceManager passes the call on to it: one of any user's answers the admin's command."""
    app = "application_1_0001"
    path = f"/proxy/{app}/ws/v1/mapreduce/jobs/job_1_0001/conf"
    world.answers["/ws/v1/cluster/apps"] = {"apps": {"app": [{"id": app}]}}
    for lie in LIES:
        world.answers[path] = lie
        assert world.serious() == {}, lie[:40]
    world.answers[path] = f"{world.url}/elsewhere"
    assert world.serious() == {} and "/elsewhere" not in world.asked, "no redirect of its is followed"
    name = "yarn.resourcemanager.scheduler.address"
    world.answers[path] = {"conf": {"property": [{"name": name, "value": "\x1b[2J127.0.0.1:1\n"}]}}
    assert world.serious()["job-address"] == f"job_1_0001 has {name}=?[2J127.0.0.1:1 "


@pytest.mark.parametrize("lie", LIES)
def test_a_daemon_that_answers_something_else_is_one_that_was_not_asked(world: World, lie: bytes) -> None:
    honest = dict(world.answers)
    for path in honest:
        world.answers = honest | {path: lie}
        facts, _ = world.look()
        assert facts.live is not None


def test_a_proxy_whose_list_has_no_end_is_read_to_a_bound(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "_PAGES", 3)
    world.answers["/v1/nodes"]["more"] = True
    assert world.serious() == {}
    assert world.asked.count("/v1/nodes") == 3


def test_what_does_not_answer_is_said(world: World) -> None:
    del world.answers["/conf"]
    del world.answers["/ws/v1/node/info"]
    facts, _ = world.look()
    told = {item.subject: item.why for item in facts.unchecked}
    assert told["configuration of ResourceManager"] == f"{world.url}/conf: answered 404"
    assert any(what.startswith("NodeManager 127.0.0.1") for what in told)
    assert "NodeManagers' files" in told
    world.answers.clear()
    facts, found = world.look()
    assert "ResourceManager" in {item.subject for item in facts.unchecked}
    assert "proxy-down" in {one.code for one in found}


def test_queues_that_are_not_there_and_proxies_of_several(world: World) -> None:
    world.copy.yaml.write_text(world.copy.yaml.read_text().replace("'*'", "[default, 'night*']"))
    world.answers["/ws/v1/cluster/metrics"] = {"clusterMetrics": {}}
    facts = world.files()
    known = replace(facts, live=Live(queues=("root.default", "root.batch")))
    (found,) = [one for one in diagnose(known) if one.code == "unknown-queue"]
    assert found.state.startswith("policies.queues has root.night*") or "night*" in found.state
    down = DoctorProxy("http://two.example:8390", error="no answer", ha_id="rm2")
    (found,) = [one for one in diagnose(replace(facts, live=Live(proxies=(down,)))) if one.code.startswith("proxy-")]
    assert (found.code, found.state) == ("proxy-missing", "rm2: no answer")
