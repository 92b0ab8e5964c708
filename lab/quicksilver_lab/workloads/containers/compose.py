"""The stack of docker/compose.yaml, driven by docker-compose 1 or by Docker's compose plugin."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from quicksilver_lab.workloads.containers.contexts import SOURCE
from quicksilver_lab.workloads.containers.engine import ContainerEngine
from quicksilver_lab.workloads.errors import WorkloadError

FILE: Final = SOURCE / "compose.yaml"
UP_S: Final = 900.0
_DOWN_S: Final = 300.0
_POLL_S: Final = 1.0
_LOG_LINES: Final = 15
NET: Final = "127.0.2"
PORTS: Final = "221"
ADDRESSES: Final[Mapping[str, tuple[int, tuple[int, ...]]]] = {
    "resourcemanager": (1, (8030, 8031, 8032, 8033, 8088, 8390, 18030)),
    "namenode": (2, (8020, 9870)),
    "datanode": (3, (9864, 9866, 9867)),
    "jobhistory": (4, (10020, 10033, 19888)),
    "postgres": (5, (5432,)),
    "prometheus": (6, (9090,)),
    "node1": (11, (8391,)),
    "node2": (12, (8391,)),
    "node3": (13, (8391,)),
}
"""Of each host name: the last number of its address, and its ports (the proxy shares the ResourceManager's)."""


@dataclass(frozen=True, slots=True)
class Compose:
    """One project. net, ports: QUICKSILVER_NET and QUICKSILVER_PORTS of compose.yaml."""

    engine: ContainerEngine
    project: str = "quicksilver-demo"
    tag: str = "latest"
    net: str = NET
    ports: str = PORTS
    files: tuple[Path, ...] = (FILE,)
    variables: Mapping[str, str] = field(default_factory=dict)

    def url(self, name: str, port: int) -> str:
        """Return the URL of a service from this host, which does not know the names."""
        return f"http://{self.net}.{ADDRESSES[name][0]}:{port}"

    def call(self, *arguments: str, timeout_s: float = _DOWN_S, stdin: bytes = b"") -> str:
        """Run a compose command and return its output. Raises WorkloadError."""
        engine = ContainerEngine(self._env(), self.engine.private)
        return engine.run(self._argv(arguments), timeout_s=timeout_s, stdin=stdin, cwd=FILE.parent)

    def _argv(self, arguments: Sequence[str]) -> list[str]:
        options = [word for file in self.files for word in ("-f", str(file))]
        return [*program(), *options, "-p", self.project, *arguments]

    def _env(self) -> dict[str, str]:
        own = {
            "COMPOSE_HTTP_TIMEOUT": "600",
            "QUICKSILVER_NET": self.net,
            "QUICKSILVER_PORTS": self.ports,
            "QUICKSILVER_TAG": self.tag,
        }
        return {**self.engine.env, **own, **self.variables}

    def up(self) -> None:
        """Start everything and wait until each service is healthy. Raises WorkloadError with the logs of others."""
        taken = busy(self.net, self.ports)
        if taken:
            remedy = "end what listens there, or choose others by --net and --ports"
            raise WorkloadError(f"{', '.join(taken)} in use", place="addresses", remedy=remedy)
        try:
            self.call("up", "-d", timeout_s=UP_S)
            self._wait(UP_S)
        except WorkloadError as error:
            sick = [name for name, state in self.states().items() if state != "healthy"]
            logs = [f"{name}:\n{self.log(name)}" for name in sick[:2]]
            raise WorkloadError("\n".join([str(error), *logs]), place="compose") from error

    def states(self) -> dict[str, str]:
        """Return the state of each service's container: healthy, starting, unhealthy, exited, restarting, ..."""
        states = {}
        for container in self.engine.docker("ps", "-aq", f"--filter=label={_PROJECT}={self.project}").split():
            about = json.loads(self.engine.docker("inspect", container))[0]
            state, health = about["State"], about["State"].get("Health", {})
            runs = state["Status"] == "running"
            states[about["Config"]["Labels"][_SERVICE]] = health.get("Status", "running") if runs else state["Status"]
        return states

    def log(self, name: str) -> str:
        """Return the last lines of a service's log."""
        return self.call("logs", "--no-color", f"--tail={_LOG_LINES}", name)

    def execute(self, service: str, *command: str, timeout_s: float, stdin: bytes = b"") -> str:
        """Run a command in a service's container and return its output. Raises WorkloadError when it fails."""
        return self.call("exec", "-T", service, *command, timeout_s=timeout_s, stdin=stdin)

    def popen(self, service: str, *command: str, output: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a command in a service's container; its output goes to `output`, errors included."""
        return subprocess.Popen(
            self._argv(["exec", "-T", service, *command]),
            cwd=FILE.parent,
            env={**os.environ, **self._env()},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def down(self) -> None:
        """Remove containers and volumes."""
        self.call("down", "--volumes", "--remove-orphans", "--timeout=5")

    def _wait(self, within_s: float) -> None:
        until_s = time.monotonic() + within_s
        while True:
            waiting = [f"{name} is {state}" for name, state in self.states().items() if state != "healthy"]
            if not waiting:
                return
            if time.monotonic() > until_s:
                raise WorkloadError(f"not healthy after {within_s:g} s: {', '.join(waiting)}", place="compose")
            time.sleep(_POLL_S)


_PROJECT: Final = "com.docker.compose.project"
_SERVICE: Final = "com.docker.compose.service"


def program() -> list[str]:
    """Return the command of Compose: the plugin's where Docker has it. Raises WorkloadError where there is none."""
    with suppress(FileNotFoundError):
        if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
            return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    raise WorkloadError("it is missing", place="docker-compose", remedy="install docker-compose")


def busy(net: str, ports: str) -> list[str]:
    """Return the addresses of the stack that somebody else listens at."""
    addresses = [(f"{net}.{last}", port) for last, several in ADDRESSES.values() for port in several]
    addresses += [("127.0.0.1", int(f"{ports}{node}{which}")) for node in (1, 2, 3) for which in (0, 1, 2, 3)]
    return [f"{host}:{port}" for host, port in _taken(addresses)]


def _taken(addresses: Iterable[tuple[str, int]]) -> Iterable[tuple[str, int]]:
    for address in addresses:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError:
                yield address
