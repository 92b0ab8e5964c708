"""Tracker relays of a local cluster, one for each NodeManager, as processes with settings as an admin writes them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from ruamel.yaml import YAML

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_security import LocalSecurity
from quicksilver_lab.cluster.spec import HostPort

_GRACE_S: Final = 20.0


class TrackerRelays:
    """Runs them for the time of a with block, which a cluster with `tracker_relay` has to be started within.

    proxy_urls: where proxies take the nodes' master keys; none are reported without. upstreams: where the relays of
    nodes, by name, find the ResourceManager, if something is between.
    """

    def __init__(
        self,
        cluster: Cluster,
        proxy_urls: Sequence[str] = (),
        security: LocalSecurity | None = None,
        upstreams: Mapping[str, HostPort] | None = None,
    ) -> None:
        self.cluster, self._urls, self._security = cluster, list(proxy_urls), security
        self._upstreams = dict(upstreams or {})
        self.folder = cluster.spec.workdir / "relays"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        """By the name of the node."""

    def __enter__(self) -> Self:
        cluster = self.cluster
        cluster.conf.write(cluster.launcher.jars)  # each relay reads the configuration of its NodeManager
        self.folder.mkdir(parents=True, exist_ok=True)
        for node in cluster.spec.node_addresses:
            self.start(node.name)
        return self

    def start(self, name: str) -> None:
        """Start the relay of a node."""
        spec = self.cluster.spec
        number = [node.name for node in spec.node_addresses].index(name)
        upstream = self._upstreams.get(name, spec.resource_tracker)
        relay = {"upstream": str(upstream), "report_keys": bool(self._urls), "proxy_urls": self._urls}
        sections: dict[str, Mapping[str, Any]] = {"tracker": relay}
        if self._security is not None:
            sections["security"] = self._security.node(spec.node_addresses[number])
        config = self.folder / f"{name}.yaml"
        with config.open("w") as file:
            YAML().dump(sections, file)
        command = [sys.executable, "-m", "quicksilver", "tracker", "run", "--config", str(config)]
        command += ["--conf-dir", str(self.cluster.node_conf_dirs[number])]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(timeout=_GRACE_S)
