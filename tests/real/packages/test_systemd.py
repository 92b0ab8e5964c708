"""The Debian package under a real systemd: units with their hardening, enabled by role, upgraded and removed.

systemd is process 1 of namespaces of its own in a clean root; its control groups are below one of the test's own.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
import requests

from deploy.packages.build import epoch_of, pack
from deploy.packages.wheels import own_wheels
from quicksilver_lab.cluster.ports import free_base_port
from tests.packaging.environment_wheels import environment_wheels
from tests.paths import ROOT
from tests.real.packages.clean_roots import SETTINGS, Root, debootstrap

pytestmark = [pytest.mark.cgroup, pytest.mark.long, pytest.mark.timeout(2400)]
HIERARCHY: Final = Path("/sys/fs/cgroup/systemd")
BOOT: Final = """
root=$1
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
mkdir "$root/sys/fs/cgroup/systemd"
mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero random urandom full tty; do
  touch "$root/dev/$name"
  mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
exec chroot "$root" env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
  /lib/systemd/systemd --system --unit=basic.target --log-target=null
"""


class Booted:
    """A root with a running systemd."""

    def __init__(self, root: Root, group: Path) -> None:
        self.root, self.group = root, group
        group.mkdir()
        join = f'echo $$ > {group}/cgroup.procs; exec "$@"'
        spaces = (
            "--fork",
            "--kill-child",
            "--pid",
            "--mount",
            "--uts",
            "--ipc",
            "--cgroup",
            "--propagation",
            "private",
        )
        command = ["sh", "-ec", join, "sh", "unshare", *spaces, "sh", "-ec", BOOT, "sh", str(root.path)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def init(self) -> int | None:
        """Return the process that is systemd."""
        return next((child.pid for child in psutil.Process(self.process.pid).children()), None)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = ["nsenter", f"--target={self.init()}", "--all", "--root", "--wd", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    def stop(self) -> None:
        init = self.init()
        if init is not None:
            os.kill(init, 9)  # the kernel ends all others of its namespace
        self.process.kill()
        self.process.wait()
        deadline = time.monotonic() + 30
        while self.group.exists():
            assert time.monotonic() < deadline, f"{self.group} is left"
            with suppress(OSError):
                for folder in sorted(self.group.rglob("*/"), reverse=True):
                    folder.rmdir()
                self.group.rmdir()
            time.sleep(0.2)


@pytest.fixture
def booted(tmp_path: Path) -> Iterator[Booted]:
    if not (HIERARCHY / "cgroup.procs").exists():
        pytest.skip("needs systemd's hierarchy of cgroup v1")
    root = Root(tmp_path / "root")
    debootstrap(root.path, "python3", "systemd")
    made = Booted(root, HIERARCHY / f"quicksilver-test-{os.getpid()}")
    try:
        eventually(lambda: made.init() and made.run("systemctl", "is-system-running").stdout.strip() == "running")
        yield made
    finally:
        made.stop()


def eventually(check: Any, timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def health(port: int) -> dict[str, Any]:
    try:
        found: dict[str, Any] = requests.get(f"http://127.0.0.1:{port}/v1/health", timeout=10).json()
    except (requests.ConnectionError, requests.Timeout):  # it begins
        return {}
    return found


def test_units_run_are_upgraded_and_go_with_the_package(booted: Booted, tmp_path: Path) -> None:
    wheels = [*own_wheels(ROOT, tmp_path / "own"), *environment_wheels(tmp_path / "wheels")]
    (package,) = pack(wheels, platform.machine(), tmp_path / "dist", epoch_of(ROOT), ["deb"])
    done = booted.run("dpkg", "--install", booted.root.put(package))
    assert done.returncode == 0, done.stderr
    assert booted.run("systemctl", "is-enabled", "quicksilver-proxy").stdout == "disabled\n"
    base = free_base_port(1)
    conf = booted.root.path / "etc/hadoop/conf"
    conf.mkdir(parents=True)
    names = {
        "resourcemanager.hostname": "127.0.0.1",
        "resourcemanager.scheduler.address": f"127.0.0.1:{base + 30}",
        "resourcemanager.resource-tracker.address": f"127.0.0.17:{base + 36}",
        "nodemanager.bind-host": "127.0.0.1",
        "nodemanager.address": f"127.0.0.17:{base + 91}",
        "nodemanager.webapp.address": f"127.0.0.17:{base + 92}",
    }
    text = "".join(
        f"<property><name>yarn.{name}</name><value>{value}</value></property>" for name, value in names.items()
    )
    (conf / "yarn-site.xml").write_text(f"<configuration>{text}</configuration>")
    rest, near = base + 40, base + 41
    (booted.root.path / SETTINGS).write_text(
        f"proxy: {{upstream: '127.0.0.1:{base + 35}', rest_listen: '127.0.0.1:{rest}'}}\n"
        f"sidecar: {{rest_listen: '127.0.0.1:{near}', proxy_url: 'http://127.0.0.1:{rest}'}}\n"
        "policies: {}\n"
    )
    units = ("quicksilver-proxy", "quicksilver-sidecar")
    done = booted.run("systemctl", "enable", "--now", *units)
    assert done.returncode == 0, done.stderr + booted.run("systemctl", "--no-pager", "status", *units).stdout
    eventually(lambda: health(rest).get("nodes") == 1)  # the sidecar's report
    before = health(rest)["started_s"]
    assert booted.run("systemctl", "kill", "--signal=SIGUSR2", "quicksilver-proxy").returncode == 0
    eventually(lambda: health(rest).get("started_s", before) > before)
    assert booted.run("systemctl", "is-active", *units).stdout.split() == ["active", "active"]
    done = booted.run("dpkg", "--purge", "yarn-quicksilver")
    assert done.returncode == 0, done.stderr
    assert health(rest) == {}
    assert booted.run("systemctl", "list-unit-files", "--no-legend", "quicksilver*").stdout == ""
    assert not (booted.root.path / "var/lib/quicksilver").exists()
