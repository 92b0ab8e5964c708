"""The packages in clean roots: installed, run by their units' lines before a real YARN, upgraded and removed.

No rpm distribution can be installed here, therefore the .rpm is installed by rpm in a Debian root, whose
database of rpm is empty: `--nodeps`, since it knows of no Python.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

from deploy.packages.build import epoch_of, pack
from deploy.packages.wheels import own_wheels
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.ports import free_base_port
from quicksilver_lab.cluster.spec import ClusterSpec
from quicksilver_lab.workloads.mapreduce import (
    JobOptions,
    count_words,
    make_text,
    put_text,
    read_counts,
    start_wordcount,
)
from tests.packaging.environment_wheels import environment_wheels
from tests.paths import ROOT
from tests.real.packages.clean_roots import SETTINGS, InstalledDaemons, Root, debootstrap

pytestmark = [pytest.mark.hadoop, pytest.mark.long, pytest.mark.timeout(2400)]
TEXT: Final = make_text(500)
ALL_MAPS_Q: Final = {
    "queues": "*",
    "routes": [{"match": {"type": "MAPREDUCE", "priority": 10}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
}
LINE: Final = "# the admin's own line\n"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The packages by the end of their names."""
    folder = tmp_path_factory.mktemp("dist")
    machine = platform.machine()
    wheels = [*own_wheels(ROOT, folder / "own"), *environment_wheels(folder / "wheels")]
    return {path.suffix: path for path in pack(wheels, machine, folder, epoch_of(ROOT))}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """A root with Python and rpm."""
    folder = tmp_path_factory.mktemp("bare") / "root"
    debootstrap(folder, "python3", "rpm")
    return Root(folder)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    spec = ClusterSpec(workdir=tmp_path_factory.mktemp("packaged"), base_port=free_base_port(1), nodes=1)
    made = Cluster(spec)
    made.start()
    try:
        put_text(made, "/packaged/input.txt", TEXT)
        yield made
    finally:
        made.stop()


def a_job(stack: InstalledDaemons) -> None:
    """Run a job; its maps wait at the sidecar, as the proxy's decisions say."""
    target = f"/packaged/{time.time_ns()}"
    options = JobOptions(properties={"mapreduce.map.speculative": "false"})
    job = start_wordcount(stack.cluster, "/packaged/input.txt", target, maps=2, options=options).wait(timeout_s=240)
    assert read_counts(stack.cluster, target) == count_words(TEXT)
    deadline = time.monotonic() + 20
    kinds: list[str] = []
    while len(kinds) < 3 and time.monotonic() < deadline:
        items = stack.get(f"/v1/decisions?app={job.application_id}&limit=100")["items"]
        kinds = sorted(item["kind"] for item in items)
        time.sleep(0.2)
    assert kinds == ["G", "Q", "Q"]


def used(root: Root, cluster: Cluster, units: str) -> InstalledDaemons:
    """Run program, daemons, doctor and a job in a root; the daemons run on."""
    version = root.run("quicksilver", "--version").stdout
    assert version.startswith("quicksilver, version 0."), version
    listed = json.loads(root.run("quicksilver", "policy", "list", "--json").stdout)
    assert len(listed) > 40
    stack = InstalledDaemons(cluster, root, units, policies=ALL_MAPS_Q)
    stack.start()
    try:
        command = ["quicksilver", "doctor", "--json", "--rm-conf-dir", str(cluster.rm_conf_dir)]
        command += ["--nm-conf-dir", str(cluster.node_conf_dirs[0])]
        found = json.loads(root.run(*command, binds=stack.binds("proxy"), check=False).stdout)
        assert (found["counts"]["error"], found["counts"]["warning"]) == (0, 0), found["findings"]
        a_job(stack)
    except BaseException:
        stack.stop()
        raise
    return stack


def owner(path: Path) -> str:
    """Return the numbers of a file's owner and its mode."""
    found = path.stat()
    return f"{found.st_uid} {found.st_mode & 0o777:o}"


def test_the_debian_package(packages: dict[str, Path], bare: Root, cluster: Cluster, tmp_path: Path) -> None:
    root = bare.copy(tmp_path / "root")
    package = root.put(packages[".deb"])
    root.run("dpkg", "--install", package)
    settings = root.path / SETTINGS
    settings.write_text(settings.read_text() + LINE)
    assert "no mistakes" in root.run("quicksilver", "policy", "check").stdout
    stack = used(root, cluster, "/lib/systemd/system")
    try:
        state = root.path / "var/lib/quicksilver"
        uid = root.run("id", "-u", "quicksilver-proxy").stdout.strip()
        assert owner(state / "proxy") == f"{uid} 700"
        assert owner(state / "proxy" / "proxy.db") == f"{uid} 600"
        other = root.run("id", "-u", "quicksilver-app-server").stdout.strip()
        assert owner(state / "app-server") == f"{other} 700" and other != uid
        assert owner(state / "sidecar") == "0 700" and list((state / "sidecar").iterdir())
        proxy = stack.pid("proxy")
        assert proxy and str(psutil.Process(proxy).uids().effective) == uid
        root.run("dpkg", "--install", package)  # an upgrade replaces files and lets the daemons run
        assert settings.read_text().endswith(LINE)
        assert stack.pid("proxy") == proxy
        stack.upgrade("proxy")
        stack.wait()
        assert stack.pid("proxy") != proxy
        a_job(stack)
    finally:
        stack.stop()
    root.run("dpkg", "--purge", "yarn-quicksilver")
    left = [
        name
        for name in ("etc/quicksilver", "var/lib/quicksilver", "var/log/quicksilver", "opt/quicksilver")
        if (root.path / name).exists()
    ]
    assert left == []
    assert "quicksilver" not in (root.path / "etc/passwd").read_text() + (root.path / "etc/group").read_text()


def test_the_red_hat_package(packages: dict[str, Path], bare: Root, cluster: Cluster, tmp_path: Path) -> None:
    root = bare.copy(tmp_path / "root")
    package = root.put(packages[".rpm"])
    root.run("rpm", "--initdb")
    root.run("rpm", "--install", "--nodeps", package)
    assert root.run("rpm", "--verify", "--nodeps", "yarn-quicksilver").stdout == ""
    settings = root.path / SETTINGS
    settings.write_text(settings.read_text() + LINE)
    used(root, cluster, "/usr/lib/systemd/system").stop()
    root.run("rpm", "--upgrade", "--force", "--nodeps", package)
    assert settings.read_text().endswith(LINE)
    root.run("rpm", "--erase", "yarn-quicksilver")
    assert not (root.path / "opt/quicksilver").exists()
    assert (root.path / f"{SETTINGS}.rpmsave").read_text().endswith(LINE)
    assert (root.path / "var/lib/quicksilver/proxy/proxy.db").exists()  # rpm knows no purge


def test_the_archive(packages: dict[str, Path], bare: Root, cluster: Cluster, tmp_path: Path) -> None:
    root = bare.copy(tmp_path / "root")
    archive = root.put(packages[".gz"])
    root.run("sh", "-ec", f"mkdir /srv/a; tar -xf {archive} -C /srv/a; mv /srv/a/yarn-quicksilver-* /srv/moved")
    root.run("ln", "-s", "/srv/moved", "/opt/quicksilver")
    root.run("ln", "-s", "/opt/quicksilver/bin/quicksilver", "/usr/bin/quicksilver")
    root.run("sh", "/opt/quicksilver/libexec/setup-host")
    used(root, cluster, "/srv/moved/share/systemd").stop()
