"""The doctor over a real cluster with its proxy and sidecars: clean, and what is broken while it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import requests
from click.testing import CliRunner
from ruamel.yaml import YAML

from quicksilver.cli import cli
from quicksilver.doctor.site_edit import apply
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from tests.real.relays import relaying

pytestmark = pytest.mark.hadoop
QUEUE_LENGTH = "yarn.nodemanager.opportunistic-containers-max-queue-length"
COMPARATOR = "yarn.resourcemanager.nm-container-queuing.load-comparator"


@pytest.fixture(scope="module")
def stack(overlay_cluster: Cluster) -> Iterator[LocalDaemons]:
    made = LocalDaemons(overlay_cluster)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def look(stack: LocalDaemons, *more: str, config: Path | None = None, nms: bool = True) -> tuple[int, dict[str, Any]]:
    cluster = stack.cluster
    command = ["doctor", "--json", "--config", str(config or stack.folder / "proxy.yaml"), *more]
    command += ["--conf-dir", str(cluster.conf_dir), "--rm-conf-dir", str(cluster.rm_conf_dir)]
    for folder in cluster.node_conf_dirs if nms else ():
        command += ["--nm-conf-dir", str(folder)]
    done = CliRunner().invoke(cli, command)
    data: dict[str, Any] = json.loads(done.stdout)
    return done.exit_code, data


def serious(data: dict[str, Any]) -> dict[str, list[str]]:
    """Return the codes that are more than notes, each with the hosts that it was found at."""
    found: dict[str, list[str]] = {}
    for one in data["findings"]:
        if one["severity"] != "note":
            found.setdefault(one["code"], []).extend(place["host"] for place in one["places"])
    return found


@contextmanager
def changed(file: Path, put: dict[str, str]) -> Iterator[None]:
    before = file.read_bytes()
    file.write_bytes(apply(before, put, (), file))
    try:
        yield
    finally:
        file.write_bytes(before)


def test_it_is_clean_and_everything_was_looked_at(stack: LocalDaemons) -> None:
    code, data = look(stack)
    assert (code, serious(data)) == (0, {})
    assert {item["what"] for item in data["not_checked"]} <= {"the nodes' own side", "systemd units"}
    code, data = look(stack, nms=False)  # what the NodeManagers say of themselves
    assert (code, serious(data)) == (0, {})


def test_a_node_looked_at_from_itself_is_clean(stack: LocalDaemons) -> None:
    folder = stack.cluster.node_conf_dirs[0]
    command = ["doctor", "--json", "--node", "--config", str(stack.folder / "node1.yaml"), "--conf-dir", str(folder)]
    done = CliRunner().invoke(cli, [*command, "--url", stack.url])
    assert serious(json.loads(done.stdout)) == {}


def test_a_file_that_was_changed_without_a_restart(stack: LocalDaemons) -> None:
    rm, node = stack.cluster.rm_conf_dir / "yarn-site.xml", stack.cluster.node_conf_dirs[1] / "yarn-site.xml"
    with changed(node, {QUEUE_LENGTH: "5000"}):
        code, data = look(stack)
        assert (code, serious(data)) == (1, {"restart-pending": ["127.0.0.12"]})
        (found,) = [one for one in data["findings"] if one["severity"] == "error"]
        assert found["found"] == f"{QUEUE_LENGTH} is 5000 in the file, and 100000 in the running NodeManager"
    with changed(rm, {COMPARATOR: "QUEUE_LENGTH"}):
        code, data = look(stack)
        assert (code, serious(data).keys()) == (1, {"load-comparator", "restart-pending"})


def test_a_nodemanager_that_is_reached_around_its_sidecar(stack: LocalDaemons) -> None:
    node = stack.cluster.spec.node_addresses[0]

    elsewhere = {
        "listen": f"{node.host}:{node.rpc.port + 7}",
        "web_listen": f"{node.host}:{node.rpc.port + 8}",
        "node_id": str(node.rpc),
    }
    moved = LocalDaemons(stack.cluster, sidecar=elsewhere)
    keeper = stack.processes["node1"]
    keeper.terminate()
    keeper.wait(20)
    relays = [(node.rpc, node.loopback_rpc), (node.web, node.loopback_web)]
    with relaying(relays):
        moved.start_sidecar(node)
        try:
            wait_for_reports(stack)
            code, data = look(stack)
            assert (code, serious(data)) == (1, {"around-sidecar": [str(node.rpc)]})
            folder, config = stack.cluster.node_conf_dirs[0], moved.folder / "node1.yaml"
            command = ["doctor", "--json", "--node", "--offline", "--config", str(config), "--conf-dir", str(folder)]
            assert "node-listeners" in serious(json.loads(CliRunner().invoke(cli, command).stdout))
        finally:
            moved.stop()
    stack.start_sidecar(node)
    wait_for_reports(stack)


def wait_for_reports(stack: LocalDaemons) -> None:
    """Return when the proxy may place on every node."""
    deadline = time.monotonic() + 60
    while not all(node["usable"] for node in stack.get("/v1/nodes")["items"]):
        assert time.monotonic() < deadline, stack.get("/v1/nodes")
        time.sleep(0.2)


@contextmanager
def ahead(url: str, skew_s: float) -> Iterator[str]:
    """Serve what `url` serves, from a clock that is ahead."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = requests.get(f"{url}{self.path}", headers={"Accept": "application/json"}, timeout=10)
            self.send_response_only(answer.status_code)
            self.send_header("Date", formatdate(time.time() + skew_s, usegmt=True))
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_resourcemanager_whose_clock_is_ahead(stack: LocalDaemons, tmp_path: Path) -> None:
    with ahead(stack.cluster.rm_rest, 90.0) as url, (stack.folder / "proxy.yaml").open() as file:
        settings = YAML(typ="safe").load(file)
        settings["proxy"]["rm_web"] = url
        config = tmp_path / "ahead.yaml"
        YAML().dump(settings, config)
        code, data = look(stack, config=config)
    assert (code, serious(data)) == (1, {"clock-skew": ["resourcemanager ResourceManager"]})


def test_a_proxy_that_is_gone(stack: LocalDaemons) -> None:
    code, data = look(stack, "--url", "http://127.0.0.1:1")
    assert (code, serious(data)) == (1, {"proxy-down": ["proxy"]})
