"""A server that ends at any moment: each application is at YARN once, and none is lost; 1,000 submissions at once."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import requests

from apps.tests.server.fake_cluster import FakeCluster
from apps.tests.server.small_server import Client, eventually, served, settings, simple
from quicksilver_apps.server.backend import BackendUnavailableError, StartOrder
from quicksilver_lab.cluster.ports import free_base_port
from tests.paths import ROOT

MODULE = "apps.tests.server.file_cluster"


class Stopping(FakeCluster):
    """Stops in the middle of a submission, before YARN has it or after."""

    def __init__(self, arrives: bool) -> None:
        super().__init__()
        self.arrives, self.stuck, self.stopping = arrives, threading.Event(), True

    async def submit(self, order: StartOrder) -> None:
        if not self.stopping:
            await super().submit(order)
            return
        if self.arrives:
            self._take(order)
        self.stuck.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("arrives", [True, False])
def test_a_submission_that_was_cut_off_is_found_again(arrives: bool, tmp_path: Path) -> None:
    cluster = Stopping(arrives)
    with served(settings(tmp_path), cluster) as (_, url):
        one = Client(url)("POST", "/v1/applications", 202, description=simple())["id"]
        assert cluster.stuck.wait(20)
        assert Client(url).state(one) == "submitting"
    assert len(cluster.apps) == arrives
    cluster.stopping = False
    with served(settings(tmp_path), cluster) as (_, url):
        found = Client(url).until_state(one, "accepted")
        history = [change["target"] for change in Client(url)("GET", f"/v1/applications/{one}/history", 200)["changes"]]
    again = [] if arrives else ["queued", "submitting"]
    assert history == ["received", "checked", "submitting", *again, "submitted", "accepted"]
    assert list(cluster.apps) == [found["yarn_id"]] and cluster.apps[found["yarn_id"]].submissions == 1


@pytest.mark.long
def test_answers_that_are_lost(tmp_path: Path) -> None:
    cluster = FakeCluster()
    cluster.lose_answers, cluster.swallow = 1, 1
    with served(settings(tmp_path), cluster) as (_, url):
        client = Client(url)
        ids = [client("POST", "/v1/applications", 202, description=simple())["id"] for _ in range(3)]
        for one in ids:
            client.until_state(one, "accepted")
        assert len(cluster.apps) == 3 and {app.submissions for app in cluster.apps.values()} == {1}
        cluster.swallow = 1000
    bad = FakeCluster()
    bad.swallow = 1000
    folder = tmp_path / "bad"
    folder.mkdir()
    with served(settings(folder, submit_attempts=1), bad) as (_, url):
        one = Client(url)("POST", "/v1/applications", 202, description=simple())["id"]
        assert Client(url).until_state(one, "failed")["why"] == "not submitted in 1 tries: the connection broke"


def test_a_late_answer_of_yarn_while_it_is_away(tmp_path: Path) -> None:
    cluster = FakeCluster()

    async def silent(order: StartOrder) -> None:
        cluster._take(order)
        cluster.away = True
        raise BackendUnavailableError("the connection broke")

    cluster.submit = silent  # type: ignore[method-assign]
    with served(settings(tmp_path), cluster) as (_, url):
        one = Client(url)("POST", "/v1/applications", 202, description=simple())["id"]
        eventually(lambda: cluster.away)
        time.sleep(0.3)
        assert Client(url).state(one) == "submitting"
        cluster.away = False
        Client(url).until_state(one, "accepted")
    assert len(cluster.apps) == 1


class Process:
    """A server as a process, which is killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_base_port(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            command = [sys.executable, "-m", MODULE, str(self.folder), str(self.port)]
            return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def kill_and_restart(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)
        self.process = self._start()

    def stop(self) -> None:
        self.process.terminate()
        try:
            assert self.process.wait(60) == 0
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait(60)

    def until_up(self) -> None:
        def up() -> bool:
            assert self.process.poll() is None, (self.folder / "log").read_text()
            try:
                return requests.get(f"{self.url}/healthz", timeout=5).ok
            except (requests.ConnectionError, requests.Timeout):  # it begins
                return False

        eventually(up, 120)


def insist(url: str, request_id: str) -> None:
    """Submit until it is answered: as a client does whose server is killed meanwhile."""
    body = {"description": simple(), "request_id": request_id}
    deadline = time.monotonic() + 120
    while True:
        assert time.monotonic() < deadline
        try:
            answer = requests.post(f"{url}/v1/applications", json=body, timeout=5)
        except requests.RequestException:
            time.sleep(0.1)
            continue
        if answer.status_code == 202:
            return
        assert answer.status_code in (429, 503), answer.text
        time.sleep(0.1)


@pytest.mark.long
def test_a_server_that_is_killed_again_and_again(tmp_path: Path) -> None:
    process = Process(tmp_path)
    try:
        process.until_up()
        requests_made = [str(uuid.uuid4()) for _ in range(60)]
        lanes = [
            threading.Thread(target=lambda own=own: [insist(process.url, one) for one in own])
            for own in (requests_made[0::3], requests_made[1::3], requests_made[2::3])
        ]
        for lane in lanes:
            lane.start()
        for pause_s in (0.3, 0.7, 0.15):
            time.sleep(pause_s)
            process.kill_and_restart()
            process.until_up()
        for lane in lanes:
            lane.join(90)
        client = Client(process.url)
        for one in requests_made:
            client.until_state(one, "accepted", timeout_s=60)
        submitted = [line.split()[1] for line in (tmp_path / "submitted").read_text().splitlines()]
        assert Counter(submitted) == Counter(requests_made), "each at YARN once, none lost"
    finally:
        process.stop()


@pytest.mark.alone  # a thousand connections
def test_a_thousand_submissions_at_once(tmp_path: Path) -> None:
    cluster = FakeCluster()
    cluster.away = True  # so that all wait
    results: Counter[int] = Counter()
    stored: list[str] = []

    async def send(session: aiohttp.ClientSession, url: str, number: int) -> None:
        description: dict[str, Any] = simple(f"app-{number}")
        if number % 10 == 0:
            description["services"][0]["core"] = "many"
        async with session.post(f"{url}/v1/applications", json={"description": description}) as answer:
            body = await answer.json()
            results[answer.status] += 1
            if answer.status == 202:
                stored.append(body["id"])
            elif answer.status == 429:
                assert answer.headers["Retry-After"] == "10" and body["error"]["code"] == "too-many-waiting"
            else:
                assert answer.status == 422 and "services[0].core: must be a whole number" in body["error"]["message"]

    async def flood(url: str) -> None:
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=120)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            await asyncio.gather(*(send(session, url, number) for number in range(1000)))

    config = settings(tmp_path, max_waiting=700, submissions=16)
    with served(config, cluster) as (server, url):
        begun_s = time.monotonic()
        asyncio.run(flood(url))
        print(f"1000 submissions answered in {time.monotonic() - begun_s:.2f} s: {dict(results)}")
        assert results == {202: 700, 422: 100, 429: 200} and len(set(stored)) == 700
        cluster.away = False
        begun_s = time.monotonic()
        server.admission.wake()
        eventually(lambda: len(cluster.apps) == 700, 120)
        client = Client(url)
        eventually(lambda: client("GET", "/healthz", 200)["applications"] == {"accepted": 700}, 60)
        print(f"700 were submitted in {time.monotonic() - begun_s:.2f} s")
        assert {app.order.request_id for app in cluster.apps.values()} == set(stored)
        assert {app.submissions for app in cluster.apps.values()} == {1} and cluster.most_at_once <= 16


def test_the_store_is_private(tmp_path: Path) -> None:
    with served(settings(tmp_path), FakeCluster()):
        assert (tmp_path / "app-server.db").stat().st_mode & 0o777 == 0o600
