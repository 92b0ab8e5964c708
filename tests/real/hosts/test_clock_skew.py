"""Proxy or sidecars whose clock of the day differs by five minutes from that of all others.

Time namespaces do not cover that clock, and libfaketime 0.9.10 breaks Python's time.sleep: the process gets another
`time.time` before anything is imported.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from quicksilver_lab.bench.sleep_job import SleepTask, all_lives, job
from quicksilver_lab.cluster.hosts.host_cluster import HostCluster, HostDaemons, running_on_hosts
from quicksilver_lab.cluster.hosts.network_spec import NetworkSpec
from tests.real.hosts.worlds import INSECURE, MARKS, host_spec

pytestmark = [*MARKS, pytest.mark.alone]
SKEW_S: Final = 300
_MODULE: Final = ("python", "-m", "quicksilver")
_SHIFTED: Final = """\
import runpy, sys, time
now, ahead_s = time.time, float(sys.argv.pop(1))
time.time = lambda: now() + ahead_s
runpy.run_module("quicksilver", run_name="__main__", alter_sys=True)
"""
NETWORK: Final = NetworkSpec(nodes_per_rack=2)


class SkewedDaemons(HostDaemons):
    """Sidecars of some nodes, or the proxy, have another clock."""

    def __init__(self, cluster: HostCluster, skew: dict[str, int]) -> None:
        """Prepare; skew: the clock of each that has another one, by name."""
        super().__init__(cluster, policies={}, sidecar={"resizer": "none"}, sections=INSECURE, supervised=False)
        self._skew = skew

    def command(self, name: str, argv: Sequence[str]) -> list[str]:
        """Return the command line, with another clock where one is wanted."""
        if name in self._skew:
            argv = [argv[0], "-c", _SHIFTED, str(self._skew[name]), *argv[len(_MODULE) :]]
        return super().command(name, argv)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostCluster]:
    spec = host_spec(tmp_path_factory.mktemp("skew"), network=NETWORK, nodes=len(NETWORK.nodes))
    with running_on_hosts(spec) as started:
        yield started


def run(cluster: HostCluster, skew: dict[str, int]) -> tuple[Counter[str], list[str]]:
    """Run 24 tasks; return how many each node had, and what doctor says of clocks."""
    stack = SkewedDaemons(cluster, skew)
    stack.folder = cluster.spec.workdir / f"quicksilver-{'-'.join(f'{name}{by_s}' for name, by_s in skew.items())}"

    async def work() -> list[SleepTask]:
        async with job(cluster, "skew") as asked:
            tasks = asked.ask(24, 2.0)
            await asked.until_done()
            return tasks

    stack.start()
    try:
        tasks = asyncio.run(work())
        clocks = doctor(cluster, stack)
    finally:
        stack.stop()
    assert all(len(task.containers) == 1 for task in tasks), "nothing was asked for twice"
    assert [task.exits for task in tasks] == [[0]] * len(tasks)
    lives = all_lives(cluster)
    for log in sorted(stack.folder.glob("*.log")):
        assert "Traceback" not in log.read_text(errors="replace"), log
    return Counter(lives[task.containers[0]].node for task in tasks), clocks


def doctor(cluster: HostCluster, stack: HostDaemons) -> list[str]:
    """Return what doctor says of clocks."""
    config = stack.folder / "proxy.yaml"
    argv = [sys.executable, "-m", "quicksilver", "doctor", "--json", "--config", str(config), "--url", stack.url]
    argv += ["--conf-dir", str(cluster.conf_dir), "--rm-conf-dir", str(cluster.rm_conf_dir)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout, done.stderr
    return [row["found"] for row in json.loads(done.stdout)["findings"] if row["code"] == "clock-skew"]


def test_sidecars_before_and_behind(cluster: HostCluster) -> None:
    nodes, clocks = run(cluster, {"node1": SKEW_S, "node4": -SKEW_S})
    print(nodes, clocks)
    assert {"node1", "node4"} <= set(nodes), "they get tasks as others do"
    assert len(clocks) == 2


@pytest.mark.parametrize("skew", [SKEW_S, -SKEW_S])
def test_the_proxy(cluster: HostCluster, skew: int) -> None:
    nodes, clocks = run(cluster, {"proxy": skew})
    print(nodes, clocks)
    assert len(nodes) == len(NETWORK.nodes)
    assert any("clock of proxy" in line for line in clocks), clocks
