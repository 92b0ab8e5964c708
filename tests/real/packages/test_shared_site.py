"""One yarn-site.xml for ResourceManager, NodeManager and clients, as `install --shared` writes it, on real daemons."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import requests
from click.testing import CliRunner

from quicksilver.cli import cli
from quicksilver.doctor.site_edit import apply
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.spec import ClusterSpec
from quicksilver_lab.workloads.mapreduce import count_words, make_text, put_text, read_counts, start_wordcount

pytestmark = [pytest.mark.hadoop, pytest.mark.long, pytest.mark.timeout(1200)]
PORT: Final = "quicksilver.resourcemanager.scheduler.port"
SCHEDULER: Final = "yarn.resourcemanager.scheduler.address"
TEXT: Final = make_text(300)


def sourced(script: Path, name: str, env: dict[str, str]) -> str:
    """Return a variable as the shell has it after yarn-env.sh was sourced."""
    command = ["bash", "-ec", f'. "{script}"; echo "${name}"']
    return subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | env).stdout.strip()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A plain cluster of one node, whose directories are then replaced by copies of a shared one."""
    port = free_base_port(1)
    first = ClusterSpec(workdir=tmp_path / "cluster", base_port=port, nodes=1, overlay=False, client_overlay=False)
    moved = str(first.moved_scheduler.port)
    spec = first.model_copy(update={"rm_java_opts": (f"-D{PORT}={moved}",)})
    made = Cluster(spec)
    made.start()
    try:
        made.terminate("nodemanager-node1")
        made.terminate("resourcemanager")
        shared = tmp_path / "shared"
        shutil.copytree(made.node_conf_dirs[0], shared)
        site = shared / "yarn-site.xml"
        site.write_bytes(apply(site.read_bytes(), {PORT: moved}, ("yarn.nodemanager.hostname",), site))
        words = ["install", "--conf-dir", str(shared), "--shared", "--in-place"]
        for role in ("resourcemanager", "nodemanager", "client"):
            words += ["--role", role]
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.output
        node = spec.node_addresses[0].host
        assert sourced(shared / "yarn-env.sh", "YARN_RESOURCEMANAGER_OPTS", {}) == f"-D{PORT}={moved}"
        monkeypatch.setenv(
            "QUICKSILVER_NODE", sourced(shared / "yarn-env.sh", "QUICKSILVER_NODE", {"QUICKSILVER_NODE": node})
        )
        for folder in (made.conf_dir, made.rm_conf_dir, *made.node_conf_dirs):
            for name in ("yarn-site.xml", "yarn-env.sh"):
                shutil.copy(shared / name, folder / name)
        made.restart("resourcemanager")
        made.restart("nodemanager-node1")
        yield made
    finally:
        made.stop()


def effective(url: str, name: str) -> str:
    """Return a property as a running daemon says it."""
    found = requests.get(f"{url}/conf?name={name}", headers={"Accept": "application/json"}, timeout=60).json()
    return str(found["property"]["value"])


def test_daemons_differ_where_they_have_to(cluster: Cluster) -> None:
    spec, node = cluster.spec, cluster.spec.node_addresses[0]
    files = {folder: (folder / "yarn-site.xml").read_bytes() for folder in (cluster.conf_dir, cluster.rm_conf_dir)}
    assert len({*files.values(), (cluster.node_conf_dirs[0] / "yarn-site.xml").read_bytes()}) == 1
    assert effective(spec.resource_managers[0].web.url, SCHEDULER).endswith(f":{spec.moved_scheduler.port}")
    assert effective(node.loopback_web.url, SCHEDULER).endswith(f":{spec.scheduler.port}")
    assert effective(node.loopback_web.url, "yarn.nodemanager.address") == str(node.rpc)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(spec.scheduler, timeout=5)
    stack = LocalDaemons(
        cluster,
        proxy={"upstream": None, "rm_conf_dir": str(cluster.rm_conf_dir)},  # from yarn-env.sh
        sidecar={"listen": str(node.rpc), "web_listen": str(node.web)},
    )
    put_text(cluster, "/shared/input.txt", TEXT)
    stack.start()
    try:
        start_wordcount(cluster, "/shared/input.txt", "/shared/out", maps=2).wait(timeout_s=240)
        assert read_counts(cluster, "/shared/out") == count_words(TEXT)
        words = ["doctor", "--json", "--config", str(stack.folder / "proxy.yaml"), "--conf-dir", str(cluster.conf_dir)]
        words += ["--rm-conf-dir", str(cluster.rm_conf_dir), "--nm-conf-dir", str(cluster.node_conf_dirs[0])]
        found = json.loads(CliRunner().invoke(cli, words).stdout)
        assert [one["code"] for one in found["findings"] if one["severity"] == "error"] == []
    finally:
        stack.stop()
