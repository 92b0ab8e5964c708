"""Proxy and sidecars of a local cluster, as processes with the settings that an admin would write."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import psutil
import requests
from ruamel.yaml import YAML

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.tokens import Role
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.kerberos import PRODUCT, REALM
from quicksilver_lab.cluster.local_security import LocalSecurity
from quicksilver_lab.cluster.spec import HostPort, NodeAddresses, RmAddresses

READY_S: Final = 90.0
_POLL_S: Final = 0.1
_GRACE_S: Final = 10.0
_TAIL_LINES: Final = 8
_REST_OFFSET: Final = 90
_NODE_REST_OFFSET: Final = 5

ALL_QUEUEABLE: Final[Mapping[str, Any]] = {"queues": "*", "routes": [{"policy": "only_q"}]}
"""The simplest `policies:` section: every container of every queue is queueable."""


class LocalDaemonsError(QuicksilverError):
    """The proxy or a sidecar did not start."""


class LocalDaemons:
    """One proxy and one sidecar per node in front of a cluster that runs with the overlay."""

    def __init__(
        self,
        cluster: Cluster,
        policies: Mapping[str, Any] = ALL_QUEUEABLE,
        proxy: Mapping[str, Any] | None = None,
        sidecar: Mapping[str, Any] | Callable[[NodeAddresses], Mapping[str, Any]] | None = None,
        supervised: bool = True,
        standby: bool = False,
        security: bool = False,
        sections: Mapping[str, Any] | None = None,
    ) -> None:
        """Prepare; `policies`, `proxy` and `sidecar` are those sections of quicksilver.yaml, `sidecar` also by node.

        supervised: each process runs below `quicksilver supervise`, which restarts it when it ends.
        standby: beside each supervised process, a loaded one waits to take over; a start costs twice as much.
        security: REST by TLS, with certificates of a CA of their own, and tokens.
        sections: further sections of every quicksilver.yaml, such as `audit`.
        """
        self.cluster, self.supervised, self._standby = cluster, supervised, standby
        self.folder = cluster.spec.workdir / "quicksilver"
        self.policies, self._proxy = dict(policies), dict(proxy or {})
        self._sidecar = sidecar if callable(sidecar) else lambda _: sidecar or {}
        self._sections = dict(sections or {})
        self.security = LocalSecurity(self.folder / "tls") if security else None
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        """By name: `proxy`, `node1`, ...; when supervised, their supervisors."""
        self._logs: list[IO[bytes]] = []

    @property
    def url(self) -> str:
        """The proxy's REST; with high availability that of the active ResourceManager's."""
        spec = self.cluster.spec
        return self.url_of(self.cluster.active_rm() if spec.ha else spec.resource_managers[0])

    def url_of(self, rm: RmAddresses) -> str:
        """Return the REST of a ResourceManager's proxy."""
        return self.rest_of(rm).url.replace("http:", "https:" if self.security else "http:", 1)

    @property
    def proxy_rest(self) -> HostPort:
        """Where the (first) proxy answers REST."""
        return self.cluster.spec.master(_REST_OFFSET)

    def rest_of(self, rm: RmAddresses) -> HostPort:
        """Return where the proxy of a ResourceManager answers REST."""
        return self.cluster.spec.master(_REST_OFFSET + self.cluster.spec.resource_managers.index(rm))

    def proxy_name(self, rm: RmAddresses) -> str:
        """Return the name of a ResourceManager's proxy in `processes`: proxy, or with high availability proxy-rm1."""
        return f"proxy-{rm.id}" if rm.id else "proxy"

    def sidecar_rest(self, node: NodeAddresses) -> HostPort:
        """Return where a node's sidecar answers REST."""
        return HostPort(node.host, node.rpc.port + _NODE_REST_OFFSET)

    def log(self, name: str) -> Path:
        """Return the log of `proxy` or of a node's sidecar (`node1`, ...)."""
        return self.folder / f"{name}.log"

    def start(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Start all and return when the proxy has a report of every node.

        Raises LocalDaemonsError naming the log of what failed; the others are stopped then.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            progress("starting proxy and sidecars")
            self.start_proxy()
            for node in self.cluster.spec.node_addresses:
                self.start_sidecar(node)
            self.wait()
        except BaseException:
            self.stop()
            raise

    def start_proxy(self) -> None:
        """Start the proxy's process, with high availability one for each ResourceManager."""
        for rm in self.cluster.spec.resource_managers:
            name = self.proxy_name(rm)
            own = {
                "upstream": str(rm.moved_scheduler),
                "rest_listen": str(self.rest_of(rm)),
                "store_url": f"sqlite:///{self.folder / name}.db",
                "state_dir": str(self.folder),
                **({"rm_id": rm.id} if rm.id else {}),
                **self._login(),
            }
            sections: dict[str, Any] = {"policies": self.policies, "proxy": own | self._proxy}
            if self.security is not None:
                sections["security"] = self.security.proxy()
            config = self._write(name, sections)
            self._spawn(name, ["proxy", "run", "--config", str(config), "--conf-dir", str(self.cluster.conf_dir)])

    def start_sidecar(self, node: NodeAddresses) -> None:
        """Start the process of one node's sidecar."""
        number = self.cluster.spec.node_addresses.index(node)
        urls = [self.url_of(rm) for rm in self.cluster.spec.resource_managers]
        own = {
            **({"proxy_url": urls[0]} if len(urls) == 1 else {"proxy_urls": urls}),
            "rest_listen": str(self.sidecar_rest(node)),
            "state_dir": str(self.folder),
            **self._login(),
        }
        sidecar = own | dict(self._sidecar(node))
        sections: dict[str, Any] = {"policies": self.policies, "sidecar": sidecar}
        if self.security is not None:
            sections["security"] = self.security.node(node)
        config = self._write(node.name, sections)
        conf_dir = self.cluster.node_conf_dirs[number]
        self._spawn(node.name, ["sidecar", "run", "--config", str(config), "--conf-dir", str(conf_dir)])

    def _login(self) -> dict[str, str]:
        """Return the settings by which proxy and sidecars log in where the web servers want Kerberos."""
        if not self.cluster.spec.spnego:
            return {}
        keytab = self.cluster.kerberos.keytab(PRODUCT)
        return {"kerberos_principal": f"{PRODUCT}@{REALM}", "kerberos_keytab": str(keytab)}

    def _write(self, name: str, sections: Mapping[str, Any]) -> Path:
        path = self.folder / f"{name}.yaml"
        with path.open("w") as file:
            YAML().dump({**sections, **self._sections}, file)
        return path

    def command(self, name: str, argv: Sequence[str]) -> list[str]:
        """Return the command line of the proxy or of a node's sidecar; a cluster of many hosts runs it on one."""
        return list(argv)

    def _spawn(self, name: str, arguments: list[str]) -> None:
        log = self.log(name).open("ab")
        self._logs.append(log)
        supervisor = ["supervise", "--standby" if self._standby else "--no-standby", "--"] if self.supervised else []
        command = self.command(name, [sys.executable, "-m", "quicksilver", *supervisor, *arguments])
        env = {k: v for k, v in os.environ.items() if not k.startswith(("QUICKSILVER_", "HADOOP_"))}
        if self.cluster.spec.kerberos:
            env |= self.cluster.kerberos.env
        self.processes[name] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=env
        )

    def pid(self, name: str) -> int | None:
        """Return the pid of the proxy or of a node's sidecar; None during a restart."""
        process = self.processes[name]
        if not self.supervised:
            return process.pid if process.poll() is None else None
        try:
            children = psutil.Process(process.pid).children()
        except psutil.NoSuchProcess:
            return None
        return min(children, key=_began).pid if children else None  # the other one is the standby process

    def kill(self, name: str, timeout_s: float = READY_S) -> int:
        """End the proxy or a node's sidecar by SIGKILL; its supervisor restarts it. Returns the pid that was killed.

        Raises LocalDaemonsError when there is none within `timeout_s`, because the supervisor ended.
        """
        return self._signal(name, signal.SIGKILL, timeout_s)

    def upgrade(self, name: str, timeout_s: float = READY_S) -> int:
        """Have the proxy or a node's sidecar end in order, for a new process to take over; otherwise as `kill`."""
        return self._signal(name, signal.SIGUSR2, timeout_s)

    def _signal(self, name: str, number: signal.Signals, timeout_s: float) -> int:
        deadline = time.monotonic() + timeout_s
        while (pid := self.pid(name)) is None:
            if time.monotonic() > deadline:
                raise LocalDaemonsError("has no process", place=name, remedy=self._tail(name))
            time.sleep(_POLL_S)
        os.kill(pid, number)
        return pid

    def wait(self, timeout_s: float = READY_S) -> None:
        """Return when every node takes queueable containers. Raises LocalDaemonsError when one does not in time."""
        nodes = {str(node.rpc) for node in self.cluster.spec.node_addresses}
        deadline = time.monotonic() + timeout_s
        missing = nodes
        while missing:
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise LocalDaemonsError(f"ended with {process.returncode}", place=name, remedy=self._tail(name))
            if time.monotonic() > deadline:
                raise LocalDaemonsError(
                    f"no report of {', '.join(sorted(missing))} within {timeout_s:.0f} s",
                    place="proxy",
                    remedy=f"read the logs in {self.folder}",
                )
            time.sleep(_POLL_S)
            missing = nodes - self._usable()

    def _usable(self) -> set[str]:
        try:
            nodes = self.get("/v1/nodes?limit=1000")
        except requests.RequestException:
            return set()  # not up yet; wait() has the deadline
        return {node["id"] for node in nodes["items"] if node["usable"]}

    def get(self, path: str) -> Any:
        """GET a path of the proxy's REST, return its JSON. Raises requests.RequestException."""
        response = self.call("GET", f"{self.url}{path}")
        response.raise_for_status()
        return response.json()

    def call(self, method: str, url: str, role: Role = Role.READ, **arguments: Any) -> requests.Response:
        """Call the proxy or a sidecar, with a token of `role` where they want one."""
        if self.security is not None:
            arguments |= {"verify": str(self.security.ca), "headers": self.security.headers(role)}
        return requests.request(method, url, timeout=10, **arguments)

    def _tail(self, name: str) -> str:
        lines = self.log(name).read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        return "read {}, which ends with:\n{}".format(self.log(name), "\n".join(lines))

    def stop(self) -> None:
        """Stop sidecars and proxy, by SIGTERM and after 10 s by SIGKILL."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()  # the process ends with its supervisor
                process.wait()
        self.processes.clear()
        for log in self._logs:
            log.close()
        self._logs.clear()


def _began(process: psutil.Process) -> tuple[float, int]:
    try:
        return process.create_time(), process.pid
    except psutil.NoSuchProcess:
        return math.inf, process.pid


@contextmanager
def running(cluster: Cluster, *, supervised: bool = True, **sections: Any) -> Iterator[LocalDaemons]:
    """Run proxy and sidecars for the time of a with block; the arguments are those of LocalDaemons."""
    stack = LocalDaemons(cluster, supervised=supervised, **sections)
    stack.start()
    try:
        yield stack
    finally:
        stack.stop()
