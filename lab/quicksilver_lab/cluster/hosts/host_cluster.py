"""Hadoop's daemons, proxy and sidecars, each on its host."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.commands import Launcher
from quicksilver_lab.cluster.confdirs import ConfDirs
from quicksilver_lab.cluster.daemon_processes import DaemonProcesses, Progress
from quicksilver_lab.cluster.daemons import Daemon
from quicksilver_lab.cluster.errors import DaemonFailedError
from quicksilver_lab.cluster.hosts.host_spec import CLIENT_HOST, HostSpec, host_of
from quicksilver_lab.cluster.hosts.namespaces import inside, run_inside, thread_inside
from quicksilver_lab.cluster.hosts.network import READY_FILE, SPEC_FILE
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.runtime.jars import Jars
from quicksilver_lab.cluster.spec import HostPort, RmAddresses

_UP_S: Final = 60.0
_POLL_S: Final = 0.05
_REST_PORT: Final = 90
_TOPOLOGY: Final = """\
#!/bin/sh
# Prints the rack of each name or address, as net.topology.script.file.name wants it.
for name in "$@"; do
  awk -v name="$name" '$1 == name { rack = $2 } END { print rack ? rack : "/default-rack" }' "$(dirname "$0")/racks"
done
"""


class Hosts:
    """The hosts of a network that runs, by name."""

    def __init__(self, folder: Path) -> None:
        """Read the hosts of the network that runs in `folder`. Raises DaemonFailedError when there is none."""
        try:
            saved = json.loads((folder / READY_FILE).read_text())
        except FileNotFoundError as error:
            raise DaemonFailedError(
                f"{folder}: no network of hosts runs here. Start one: quicksilver cluster hosts"
            ) from error
        self.pids: dict[str, int] = saved["hosts"]
        self.network_pid: int = saved["pid"]

    def run(self, host: str, *argv: str, text: str | None = None) -> str:
        """Run a command on a host; return its output. Raises DaemonFailedError when it fails."""
        return run_inside(self.pids[host], argv, text)

    def argv(self, host: str, argv: Sequence[str], folder: Path | None = None) -> list[str]:
        """Return the command line that runs `argv` on a host, in `folder`."""
        return inside(self.pids[host], argv, folder)


class _HostProcesses(DaemonProcesses):
    """Daemons that are started on their hosts."""

    def __init__(self, spec: HostSpec, hosts: Hosts) -> None:
        super().__init__(spec)
        self._host_spec, self._hosts = spec, hosts

    def check_ports(self, daemons: Iterable[Daemon]) -> None:
        """Check nothing: nobody else is on these hosts."""

    def spawn(self, daemons: Sequence[Daemon], launcher_of: Callable[[str], Launcher], progress: Progress) -> None:
        """Start daemons on their hosts."""
        there = []
        for daemon in daemons:
            launcher = launcher_of(daemon.name)
            opts = (f"-Dproc_{daemon.name}", *daemon.java_opts)
            java = launcher.argv(daemon.main_class, daemon.args, daemon.conf_dir, daemon.heap_mb, opts)
            host = host_of(self._host_spec, daemon.name)
            argv = self._hosts.argv(host, daemon.argv or java, self._host_spec.workdir)
            there.append(replace(daemon, argv=tuple(argv)))
        super().spawn(there, launcher_of, progress)


class _HostConf(ConfDirs):
    """Configuration folders with the names of the hosts and the racks of the network."""

    def __init__(self, spec: HostSpec) -> None:
        super().__init__(spec)
        self._network = spec.network

    def write(self, jars: Jars) -> None:
        """Write all of them."""
        super().write(jars)
        self.hosts_file.write_text(self._network.hosts_file())
        (self.root / "racks").write_text(self._network.rack_table())
        script = topology_script(self.spec.workdir)
        script.write_text(_TOPOLOGY)
        script.chmod(0o755)


def topology_script(workdir: Path) -> Path:
    """Return the script by which the ResourceManager finds out the rack of a node."""
    return workdir / "conf" / "topology.sh"


class HostCluster(Cluster):
    """A cluster on the hosts of a network. It and what looks at it run on the host `client` (`on_hosts`)."""

    def __init__(self, spec: HostSpec, hosts: Hosts) -> None:
        core = {"net.topology.script.file.name": str(topology_script(spec.workdir.absolute()))}
        extra = {**spec.extra_site, "core": core | spec.extra_site.get("core", {})}
        super().__init__(spec.model_copy(update={"extra_site": extra}))
        assert isinstance(self.spec, HostSpec)
        self.hosts = hosts
        self.conf, self.processes = _HostConf(self.spec), _HostProcesses(self.spec, hosts)


class HostDaemons(LocalDaemons):
    """A proxy on the host of each ResourceManager, and a sidecar on the host of each NodeManager."""

    def __init__(self, cluster: HostCluster, **arguments: Any) -> None:
        """Prepare; the arguments are those of LocalDaemons."""
        super().__init__(cluster, **arguments)
        self._hosts = cluster.hosts

    def rest_of(self, rm: RmAddresses) -> HostPort:
        """Return where the proxy of a ResourceManager answers REST."""
        return HostPort(rm.web.host, self.cluster.spec.base_port + _REST_PORT)

    def command(self, name: str, argv: Sequence[str]) -> list[str]:
        """Return the command line on the host of a proxy or a sidecar."""
        spec = self.cluster.spec
        proxies = {self.proxy_name(rm): rm.web.host for rm in spec.resource_managers}
        return self._hosts.argv(proxies.get(name, name), argv, Path.cwd())


@contextmanager
def on_hosts(spec: HostSpec) -> Iterator[Hosts]:
    """Run the network of a cluster for the time of a with block; this thread is on the host `client` meanwhile."""
    process = start_network(spec)
    try:
        hosts = Hosts(spec.workdir)
        with thread_inside(hosts.pids[CLIENT_HOST]):
            yield hosts
    finally:
        process.terminate()
        process.wait(_UP_S)


def start_network(spec: HostSpec) -> subprocess.Popen[bytes]:
    """Start the process of a network and return when all hosts are there. Raises DaemonFailedError."""
    folder = spec.workdir
    folder.mkdir(parents=True, exist_ok=True)
    (folder / READY_FILE).unlink(missing_ok=True)
    (folder / SPEC_FILE).write_text(spec.network.model_dump_json())
    log = folder / "network.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "quicksilver_lab.cluster.hosts.network", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    until_s = time.monotonic() + _UP_S
    while not (folder / READY_FILE).exists():
        if process.poll() is not None or time.monotonic() > until_s:
            process.terminate()
            process.wait(_UP_S)
            raise DaemonFailedError(f"network of hosts: not up. Its log is {log}; the end: {log.read_text()[-500:]}")
        time.sleep(_POLL_S)
    return process


@contextmanager
def running_on_hosts(spec: HostSpec) -> Iterator[HostCluster]:
    """Run a network and a cluster on it for the time of a with block, in which this thread is on the host `client`."""
    with on_hosts(spec) as hosts:
        cluster = HostCluster(spec, hosts)
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()
