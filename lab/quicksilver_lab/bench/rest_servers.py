"""The three servers of REST as processes on loopback, with nothing of Hadoop behind them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.cluster.ports import free_port

KINDS: Final = ("proxy", "sidecar", "app-server")
_START_S: Final = 120.0
_AWAY: Final = "127.0.0.1:9"
"""Where nobody listens."""


class RestServer:
    """One of them; `port` is of its REST, `listen` of the proxy's application masters.

    upstream: the ResourceManager or NodeManager that it stands before; more: settings of its section, as YAML of one
    line; security: the section of that name, the same way.
    """

    def __init__(
        self,
        kind: str,
        folder: Path,
        *,
        upstream: str = _AWAY,
        more: str = "",
        security: str = "",
        files: int = 0,
        under: Sequence[str] = (),
    ) -> None:
        """Start it. files: its limit of open files, 0 for this process's own; under: the command that starts it."""
        folder.mkdir(parents=True, exist_ok=True)
        self.kind, self.port, self.listen = kind, free_port(), free_port()
        self.log = folder / f"{kind}.log"
        (folder / "yarn-site.xml").write_text("<configuration/>\n")
        config = folder / "quicksilver.yaml"
        own = self._section(folder, upstream) + (f", {more}" if more else "")
        config.write_text(
            f"{kind.replace('-', '_')}: {{{own}}}\n" + (f"security: {{{security}}}\n" if security else "")
        )
        command = [sys.executable, "-m", "quicksilver", kind, "run", "--config", str(config), "--conf-dir", str(folder)]
        command = [*under, *command]
        if files:
            command = ["prlimit", f"--nofile={files}:{files}", *command]
        with self.log.open("wb") as log:
            env = {**os.environ, "HADOOP_CONF_DIR": str(folder)}
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=env)

    def _section(self, folder: Path, upstream: str) -> str:
        rest = f"rest_listen: '127.0.0.1:{self.port}'"
        if self.kind == "app-server":
            return f"{rest}, store_url: 'sqlite:///{folder / 'app-server.db'}'"
        ends = f"{rest}, listen: '127.0.0.1:{self.listen}', upstream: '{upstream}', state_dir: '{folder / 'state'}'"
        if self.kind == "proxy":
            return f"{ends}, rm_web: 'http://{_AWAY}', store_url: 'sqlite:///{folder / 'proxy.db'}'"
        web = f"web_listen: '127.0.0.1:{free_port()}', web_upstream: '{_AWAY}', node_id: 'node1:8041'"
        return f"{ends}, {web}, proxy_url: 'http://{_AWAY}', memory_mb: 2048, vcores: 2"

    def wait(self) -> None:
        """Wait until it serves. Raises QuicksilverError with the end of its log when it does not."""
        end_s = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > end_s:
                    raise QuicksilverError(f"{self.kind} does not serve: {self.log.read_text()[-1500:]}") from error
            time.sleep(0.05)

    def connect(self, timeout_s: float = 30.0) -> socket.socket:
        """Return a connection to its REST."""
        return socket.create_connection(("127.0.0.1", self.port), timeout_s)

    def rss_mb(self) -> float:
        """Return its resident memory."""
        return float(psutil.Process(self.process.pid).memory_info().rss) / 2**20

    def __enter__(self) -> Self:
        try:
            self.wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)
