"""The Ansible role on three hosts with systemd, by SSH: canary, all, again, a job, the way back to the last byte."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from quicksilver_lab.cluster.runtime.jars import hadoop_jars
from quicksilver_lab.cluster.runtime.java import find_java
from quicksilver_lab.workloads.servers.dockerd import missing
from tests.paths import ROOT
from tests.real.deploy.hosts import ADDRESSES, Hosts, run, three_hosts
from tests.real.deploy.linux_root import HADOOP_LIB, make_root

pytestmark = [pytest.mark.docker, pytest.mark.hadoop, pytest.mark.long, pytest.mark.timeout(3000)]
ANSIBLE: Final = ROOT / "deploy" / "ansible"
CONF: Final = "/etc/hadoop/conf"
RM_UP: Final = (
    "python3 -c \"import json, urllib.request as u; nodes = json.load(u.urlopen('http://rm1:8088/ws/v1/cluster/nodes'))"
)
RECAP: Final = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.M)
POLICIES: Final = {
    "queues": "*",
    "routes": [{"match": {"type": "MAPREDUCE", "priority": 10}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive for air-gapped hosts, as `make packages` builds it, of the packages of this environment."""
    build = pytest.importorskip("deploy.packages.build", reason="needs the builder of packages")
    from deploy.packages.wheels import own_wheels
    from tests.packaging.environment_wheels import environment_wheels

    folder = tmp_path_factory.mktemp("dist")
    wheels = [*own_wheels(ROOT, folder / "own"), *environment_wheels(folder / "wheels")]
    (made,) = build.pack(wheels, platform.machine(), folder, build.epoch_of(ROOT), ["archive"])
    return Path(made)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Three hosts on which stock YARN runs."""
    why = missing()
    if why:
        pytest.skip(why)
    with tempfile.TemporaryDirectory(prefix="qs-ansible-") as name:  # pytest's own are too long for Docker's sockets
        folder = Path(name)
        make_root(folder / "root")
        with three_hosts(folder, folder / "root", hadoop_jars(find_java()).lib) as made:
            made.on("rm1", "systemctl", "start", "hadoop-yarn-resourcemanager")
            for node in ("node1", "node2"):
                made.on(node, "systemctl", "start", "hadoop-yarn-nodemanager")
            made.wait_for("rm1", f"{RM_UP}['nodes']['node']; assert len(nodes) == 2\"", 300)
            yield made


class Playbooks:
    """Runs playbooks of deploy/ansible from the hosts' network."""

    def __init__(self, hosts: Hosts, archive: Path) -> None:
        self.hosts, self.inventory = hosts, hosts.folder / "inventory.yml"
        names = {name: {"ansible_host": address} for name, address in ADDRESSES.items()}
        groups = {
            "quicksilver_resourcemanagers": {"hosts": {"rm1": names["rm1"]}},
            "quicksilver_nodes": {"hosts": {name: names[name] for name in ("node1", "node2")}},
        }
        values = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(hosts.key),
            "ansible_ssh_common_args": f"-o StrictHostKeyChecking=no -o UserKnownHostsFile={hosts.folder}/known_hosts",
            "quicksilver_package": str(archive),
            "quicksilver_cluster": "three hosts",
            "quicksilver_policies": POLICIES,
        }
        with self.inventory.open("w") as file:
            YAML().dump({"all": {"vars": values, "children": groups}}, file)

    def run(self, playbook: str, *arguments: str) -> tuple[str, dict[str, int]]:
        """Run a playbook to its end, which must be good; return its output, and how many tasks changed each host."""
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        command = ["nsenter", f"--net=/run/netns/{self.hosts.network}", program, "-i", str(self.inventory)]
        own = {"ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"), "ANSIBLE_LOCAL_TEMP": str(self.hosts.folder / "tmp")}
        own |= {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.hosts.folder / "cp")}
        env = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "QUICKSILVER_"))}
        text = run([*command, str(ANSIBLE / playbook), *arguments], env=env | own, timeout_s=1500)
        counts = RECAP.findall(text)
        assert counts and all((unreachable, failed) == ("0", "0") for *_, unreachable, failed in counts), text
        return text, {host: int(changed) for host, changed, *_ in counts}


@pytest.fixture(scope="module")
def playbooks(hosts: Hosts, archive: Path) -> Playbooks:
    return Playbooks(hosts, archive)


def site_files(hosts: Hosts) -> dict[str, dict[str, str]]:
    return {name: hosts.files(name, CONF) for name in ADDRESSES}


def quicksilver(hosts: Hosts, *words: str) -> Any:
    """Return the JSON that a command on the ResourceManager's host prints."""
    env = ["env", "-C", "/", "QUICKSILVER_CONFIG=/etc/quicksilver/quicksilver.yaml"]
    return json.loads(hosts.on("rm1", *env, "quicksilver", *words, "--json", "--url", "https://rm1:8390"))


def until_usable(hosts: Hosts, wanted: dict[str, bool], wait_s: float = 180.0) -> None:
    """Wait until just these nodes take Qs: a restarted ResourceManager lists them late, a new sidecar reports late."""
    deadline = time.monotonic() + wait_s
    while (found := {node["host"]: bool(node["usable"]) for node in quicksilver(hosts, "node", "list")}) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(1)


def pi(hosts: Hosts, maps: int) -> str:
    """Run MapReduce's example from a node; return the application's id."""
    opts = [
        "-Xmx200m",
        "-cp",
        f"'{HADOOP_LIB}/*:{CONF}'",
        "org.apache.hadoop.examples.ExampleDriver",
        "pi",
        str(maps),
        "100",
    ]
    script = f"cd /shared && HADOOP_CONF_DIR={CONF} timeout 600 java {' '.join(opts)} 2>&1"
    text = hosts.daemon.docker("exec", "--user", "yarn", "node1", "sh", "-c", script, timeout_s=700)
    assert "Estimated value of Pi is 3.1" in text, text
    return re.findall(r"Submitted application (application_\w+)", text)[0]


def test_there_and_back(hosts: Hosts, playbooks: Playbooks) -> None:
    before = site_files(hosts)
    shown, _ = playbooks.run("site.yml", "--tags", "program")
    shown, _ = playbooks.run("site.yml", "--check", "--diff")
    assert shown.count("+    <name>yarn.nodemanager.bind-host</name>") == 2 and site_files(hosts) == before

    playbooks.run("canary.yml", "-e", "quicksilver_canary=1")
    until_usable(hosts, {"node1": True, "node2": False})
    after_canary = site_files(hosts)
    assert after_canary["node2"] == before["node2"] and after_canary["node1"] != before["node1"]

    playbooks.run("site.yml", "-e", "quicksilver_canary=1")
    until_usable(hosts, {"node1": True, "node2": True})
    assert playbooks.run("site.yml")[1] == {"rm1": 0, "node1": 0, "node2": 0}, "nothing is left to do"
    for name in ADDRESSES:
        key, rights = f"/etc/quicksilver/tls/{name}.key", "640 quicksilver-tls" if name == "rm1" else "600 root"
        assert hosts.on(name, "stat", "-c", "%a %G", key, "/etc/quicksilver/tokens").splitlines() == [rights] * 2
    assert "sha256:" in hosts.on("node1", "cat", "/etc/quicksilver/tokens")

    app = pi(hosts, 6)
    kinds = [one["kind"] for one in quicksilver(hosts, "decision", "list") if one["app_id"] == app]
    assert kinds.count("Q") >= 6, kinds

    playbooks.run("rollback.yml", "-e", "quicksilver_serial=1")
    assert site_files(hosts) == before
    for name in ADDRESSES:
        assert not hosts.on(
            name, "sh", "-c", "ls -d /opt/quick* /etc/quick* /var/lib/quick* /usr/bin/quick* 2>/dev/null || true"
        )
        assert not hosts.on(name, "find", "/etc/systemd", "/var/cache", "-name", "*quicksilver*")
        assert not hosts.on(name, "sh", "-c", "pgrep -fl [q]uicksilver || true")  # the pattern is not its own match
    pi(hosts, 2)
    assert set(playbooks.run("rollback.yml")[1].values()) == {0}
