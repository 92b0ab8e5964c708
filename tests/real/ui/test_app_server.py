"""The app server as a process before a real cluster: submitted, scaled and killed by its pages and REST, kill -9."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from apps.tests.server.small_server import Client, eventually
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.ports import free_base_port
from tests.paths import ROOT
from tests.rm_proxy.ui.chromium import MISSING, Browser, chromium, inspect_page

pytestmark = pytest.mark.hadoop
TEMPLATE = """\
version: 1
name: pages
title: Pages over HTTP
parameters:
  servers: {type: integer, default: 1, description: Elastic servers}
  words: {description: What each one says}
services:
  - name: web
    core: 1
    elastic: 2
    command: echo ${parameters.words} $QUICKSILVER_INSTANCE; exec python3 -m http.server $PORT_HTTP
    resources: {memory_mb: 128}
    ports: [{name: http, link: http}]
    ready: {port: http}
"""
TASK = {
    "version": 1,
    "name": "task",
    "services": [
        {"name": "work", "core": 1, "command": "echo done", "resources": {"memory_mb": 128}, "main": True},
    ],
}


class Lab:
    """The server before a cluster; killed and started again by the tests."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder, self.port = cluster, folder, free_base_port(1)
        self.url = f"http://127.0.0.1:{self.port}"
        (folder / "staging").mkdir()
        self.config = folder / "quicksilver.yaml"
        self.config.write_text(
            f"app_server:\n  rest_listen: 127.0.0.1:{self.port}\n  store_url: sqlite:///{folder}/apps.db\n"
            f"  staging: file://{folder}/staging\n  poll_s: 0.3\n  master_poll_s: 0.3\n"
        )
        self.client = Client(self.url)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "quicksilver", "app-server", "run"]
        options = ["--config", str(self.config), "--conf-dir", str(self.cluster.conf_dir)]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen([*command, *options], cwd=ROOT, stdout=log, stderr=log)

    def until_up(self) -> None:
        def up() -> bool:
            assert self.process.poll() is None, (self.folder / "log").read_text()
            try:
                return requests.get(f"{self.url}/readyz", timeout=10).status_code == 200
            except requests.ConnectionError:
                return False

        eventually(up, 60)

    def kill_and_restart(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)
        self.process = self._start()
        self.until_up()

    def stop(self) -> None:
        self.process.terminate()
        try:
            assert self.process.wait(30) == 0, (self.folder / "log").read_text()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait(20)
            self.client.close()

    def yarn_apps(self) -> dict[str, dict[str, Any]]:
        """Return YARN's applications by the request that their tag names."""
        answer = requests.get(f"{self.cluster.rm_rest}/ws/v1/cluster/apps", timeout=20).json()
        found: dict[str, dict[str, Any]] = {}
        for app in (answer["apps"] or {"app": []})["app"]:
            for tag in app.get("applicationTags", "").split(","):
                if tag.startswith("quicksilver_request:"):
                    request = tag.partition(":")[2]
                    assert request not in found, "each request is at YARN once"
                    found[request] = app
        return found


@pytest.fixture(scope="module")
def lab(plain_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(plain_cluster, tmp_path_factory.mktemp("app-server"))
    try:
        made.until_up()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if MISSING:
        pytest.fail(MISSING)
    with chromium(tmp_path_factory.mktemp("real-app-server")) as session:
        yield session


def test_an_application_by_the_pages_while_the_server_is_killed(lab: Lab, browser: Browser) -> None:
    lab.client("PUT", "/v1/templates/pages", 200, text=TEMPLATE)
    browser.open(f"{lab.url}/ui/submit?template=pages")
    browser.until("return document.querySelectorAll('#values [data-type]').length === 2")
    browser.type("#p-words", "good day from")
    browser.click("#check")
    browser.until("return !document.querySelector('#go').disabled")
    browser.click("#go")
    browser.until("return location.pathname.includes('/ui/applications/')")
    app_id = browser.driver.current_url.rpartition("/")[2]
    found = lab.client.until_state(app_id, "ready", timeout_s=120)
    assert lab.yarn_apps()[app_id]["id"] == found["yarn_id"]
    eventually(lambda: lab.client("GET", f"/v1/applications/{app_id}", 200)["services"][0]["ready"] == 3, 60)
    lab.kill_and_restart()
    assert lab.client.state(app_id) == "ready", "it went on without the server"
    inspect_page(browser, f"{lab.url}/ui/applications/{app_id}", "real-app", walk=False)
    (link, *_) = [a.get_attribute("href") for a in browser.driver.find_elements("css selector", "#instances a")]
    assert requests.get(str(link), timeout=10).status_code == 200, "the link of an instance leads to it"
    assert lab.client("GET", f"/v1/applications/{app_id}/logs/web/0", 200) == "good day from 0\n"
    lab.client("PUT", f"/v1/applications/{app_id}/scale", 200, service="web", count=0)
    browser.until("return document.querySelectorAll('#instances tbody tr').length === 1", 60)
    browser.click("#kill")
    browser.click("#kill-yes")
    lab.client.until_state(app_id, "killed", timeout_s=60)
    browser.until("return document.querySelector('#state').textContent === 'killed'")
    assert lab.yarn_apps()[app_id]["finalStatus"] == "KILLED"
    spans = lab.client("GET", f"/v1/applications/{app_id}/history", 200)["instances"]
    assert len(spans) == 3 and all(one["ready_s"] and one["ended_s"] for one in spans)
    eventually(lambda: not list((lab.folder / "staging").glob("*/applications/*")), 30)


def test_submissions_while_the_server_is_killed(lab: Lab) -> None:
    ids = [lab.client("POST", "/v1/applications", 202, description=TASK)["id"] for _ in range(4)]
    time.sleep(0.2)
    lab.kill_and_restart()
    for one in ids:
        found = lab.client.until_state(one, "finished", "failed", timeout_s=180)
        assert found["state"] == "finished", found["why"]
    assert set(ids) <= lab.yarn_apps().keys()


def test_what_the_cluster_refuses(lab: Lab) -> None:
    one = lab.client("POST", "/v1/applications", 202, description=TASK | {"queue": "nowhere"})["id"]
    found = lab.client.until_state(one, "failed", timeout_s=60)
    assert "nowhere" in found["why"] or "nowhere" in found["diagnostics"], found
    missing = TASK | {"files": [{"source": "hdfs:///none/input.csv"}]}
    two = lab.client("POST", "/v1/applications", 202, description=missing)["id"]
    assert (
        "/none/input.csv is not there; correct the path" in lab.client.until_state(two, "failed", timeout_s=60)["why"]
    )
    eventually(lambda: not list((lab.folder / "staging").glob("*/applications/*")), 30)
