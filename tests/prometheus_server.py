"""A real Prometheus of a test's own on loopback, with the configuration that the repository ships."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import requests

from tests.paths import ROOT

FOLDER: Final = ROOT / "deploy" / "monitoring" / "prometheus"
HOST: Final = "http://rm1.example.com:8390"
"""The address in the shipped configuration that an admin replaces."""


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    url: str

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of a query now; fails when it is no valid one."""
        answer = requests.get(f"{self.url}/api/v1/query", params={"query": expression}, timeout=10).json()
        assert answer["status"] == "success", (expression, answer)
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def get(self, path: str) -> Any:
        """Return the data of a page of the API."""
        answer = requests.get(f"{self.url}/api/v1/{path}", timeout=10).json()
        assert answer["status"] == "success", answer
        return answer["data"]


def settings(folder: Path, proxy_url: str, every: str = "1s") -> Path:
    """Write the shipped configuration for a proxy, with rules read each second; returns the file."""
    text = (FOLDER / "prometheus.yml").read_text()
    assert text.count(HOST) == 1
    text = (
        text.replace(HOST, proxy_url)
        .replace("interval: 15s", f"interval: {every}")
        .replace("interval: 30s", "interval: 1s")
    )
    file = folder / "prometheus.yml"
    file.write_text(text.replace("rules/*.yml", f"{FOLDER}/rules/*.yml"))
    return file


@contextmanager
def prometheus(folder: Path, config: Path, port: int) -> Iterator[Prometheus]:
    """Run a server until the block ends."""
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            server = Prometheus(f"http://127.0.0.1:{port}")
            _wait_for(server, process, folder / "prometheus.log")
            yield server
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(server: Prometheus, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + 30
    while True:
        assert process.poll() is None and time.monotonic() < deadline_s, log.read_text()[-2000:]
        try:
            if requests.get(f"{server.url}/-/ready", timeout=2).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.1)
