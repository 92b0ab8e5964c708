"""A real network of two racks: names, ways, what is lost, and that nothing is left of it."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from quicksilver_lab.cluster.hosts.host_cluster import on_hosts
from quicksilver_lab.cluster.hosts.host_spec import HostSpec
from quicksilver_lab.cluster.hosts.network_spec import NetworkSpec

pytestmark = [pytest.mark.netns, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
PORT = 9000


def mounts(folder: Path) -> tuple[Path, list[str]]:
    """Return this thread's mount namespace, and its mounts of hosts files and of a folder; other tests mount, too."""
    lines = Path("/proc/thread-self/mountinfo").read_text().splitlines()
    return Path("/proc/thread-self/ns/mnt").readlink(), [s for s in lines if "/etc/hosts" in s or str(folder) in s]


def test_hosts_reach_each_other_by_name_and_nothing_is_left(tmp_path: Path) -> None:
    before = mounts(tmp_path), Path("/etc/hosts").read_text(), socket.gethostname(), Path.cwd()
    network = NetworkSpec(racks=2, nodes_per_rack=1, delay_ms=50, loss_ratio=0.0)
    with on_hosts(HostSpec(workdir=tmp_path, network=network, nodes=2)) as hosts:
        assert socket.gethostname() == "client"
        assert Path.cwd() == before[3]
        listening = ["python3", "-c", f"import socket; s = socket.create_server(('', {PORT})); print(s.accept()[1][0])"]
        argv = hosts.argv("node2", listening)
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
            took_s = connected_s("node2")
            assert server.communicate(timeout=10)[0] == f"{network.hosts['client'].address}\n"
        assert 0.1 <= round(took_s, 2) < 1.0, "there and back between racks"
        hosts.run("rack2", "ip", "link", "set", "wan", "down")
        with pytest.raises(OSError, match=r"timed out|unreachable"):
            socket.create_connection(("node2", PORT), timeout=1)
        pids = list(hosts.pids.values())
    assert (mounts(tmp_path), Path("/etc/hosts").read_text(), socket.gethostname(), Path.cwd()) == before
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert not (tmp_path / "hosts.json").exists()


def connected_s(host: str) -> float:
    """Connect to a server as soon as it listens; return how long the connection that succeeded took."""
    end_s = time.monotonic() + 10
    while True:
        begun_s = time.monotonic()
        try:
            socket.create_connection((host, PORT), timeout=5).close()
            return time.monotonic() - begun_s
        except ConnectionRefusedError:
            assert time.monotonic() < end_s, "nobody listens"
            time.sleep(0.05)
