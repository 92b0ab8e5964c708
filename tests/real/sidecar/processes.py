"""What tests with a real NodeManager need: the sidecar as a process, a proxy that announces everything, true ends."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import requests

from quicksilver.common.http.rest_client import rest_session
from quicksilver.common.http.rest_server import serve
from quicksilver.common.process.listening import bound_socket
from tests.sidecar.fakes import FakeProxy

_POLL_S = 0.002


class TrueEnds:
    """Notes when the processes named in pid files are gone, by asking /proc every 2 ms: with no pidfd."""

    def __init__(self, local_dir: Path) -> None:
        self.at_s: dict[str, float] = {}
        self._private = local_dir / "nmPrivate"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="true-ends")
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _pid_files(self) -> list[Path]:
        """Return those that are there; folders that go meanwhile are passed over."""
        walked = os.walk(self._private)
        return [Path(folder, name) for folder, _, names in walked for name in names if name.endswith(".pid")]

    def _run(self) -> None:
        alive: dict[str, int] = {}
        while not self._stop.wait(_POLL_S):
            for path in self._pid_files():
                if path.stem not in alive and path.stem not in self.at_s:
                    with suppress(FileNotFoundError):  # it ended between two looks
                        text = path.read_text().strip()
                        if text.isdigit():
                            alive[path.stem] = int(text)
            for container, pid in list(alive.items()):
                if _over(pid):
                    self.at_s[container] = time.time()
                    del alive[container]


def _over(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


@contextmanager
def proxy() -> Iterator[tuple[FakeProxy, str]]:
    """Yield a proxy that takes reports, and its URL."""
    fake, loop = FakeProxy(), asyncio.new_event_loop()
    sock = bound_socket("127.0.0.1", 0)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    task = loop.create_task(serve(fake.app, sock))

    def run() -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            return
        finally:
            loop.close()

    thread = threading.Thread(target=run, name="proxy")
    thread.start()
    try:
        yield fake, url
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()


class Announcer:
    """Announces every opportunistic start that waits for an announcement, as the real proxy would have before."""

    def __init__(self, sidecar_url: str, **fields: Any) -> None:
        self.announced: set[str] = set()
        self._url, self._fields = sidecar_url, fields
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="announcer")
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with rest_session() as session:
            while not self._stop.wait(0.02):
                rows = session.get(f"{self._url}/v1/containers", timeout=60).json()
                grants = [self._grant(row) for row in rows if row["kind"] == "O" and row["state"] == "waiting"]
                if grants:
                    session.post(f"{self._url}/v1/grants", json={"grants": grants}, timeout=60).raise_for_status()
                    self.announced |= {grant["container_id"] for grant in grants}

    def _grant(self, row: dict[str, Any]) -> dict[str, Any]:
        app = row["app_id"]
        grant = {key: row[key] for key in ("container_id", "app_id", "memory_mb", "vcores", "priority")}
        attempt = app.replace("application", "appattempt") + "_000001"
        return grant | {"attempt_id": attempt, "app_type": "MAPREDUCE", "max_hold_s": 120.0} | self._fields


@contextmanager
def sidecar_process(conf_dir: Path, folder: Path, url: str, settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the sidecar of a NodeManager; its log is FOLDER/sidecar.log."""
    config = folder / "quicksilver.yaml"
    config.write_text(f"sidecar:\n{settings}")
    command = [sys.executable, "-m", "quicksilver", "sidecar", "run"]
    with (folder / "sidecar.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--config", str(config), "--conf-dir", str(conf_dir)], stdout=log, stderr=log
        )
    try:
        _wait_up(process, url, folder / "sidecar.log")
        yield process
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0


def _wait_up(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end_s = time.monotonic() + 120
    with rest_session() as session:
        while True:
            assert process.poll() is None, log.read_text()
            try:
                if session.get(f"{url}/healthz", timeout=2).json()["nodemanager"]:
                    return
            except requests.RequestException:
                assert time.monotonic() < end_s, log.read_text()
            time.sleep(0.1)
