"""A minimal Debian as a host of a cluster has it: systemd, sshd, Java, and Hadoop's units; no Hadoop files in it."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from quicksilver_lab.cluster.baseconf import jvm_options

PACKAGES: Final = ("systemd", "systemd-sysv", "dbus", "openssh-server", "python3", "iproute2", "procps")
JAVA: Final = "default-jre-headless"
HADOOP_LIB: Final = "/opt/hadoop/lib"
MASKED: Final = (
    "console-getty",
    "getty@",
    "systemd-logind",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
)
NOT_NEEDED: Final = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "var/cache/apt/archives",
    "var/lib/apt/lists",
)
DAEMONS: Final = {
    "resourcemanager": ("org.apache.hadoop.yarn.server.resourcemanager.ResourceManager", 384),
    "nodemanager": ("org.apache.hadoop.yarn.server.nodemanager.NodeManager", 256),
}
"""Main class and heap in MB, by the end of the unit's name; the names are those of Bigtop's packages."""
_UNIT: Final = """\
[Unit]
Description=Hadoop {daemon}
[Service]
User=yarn
Group=hadoop
Environment=HADOOP_CONF_DIR=/etc/hadoop/conf JAVA_HOME={home}
WorkingDirectory=/var/lib/hadoop-yarn
ExecStart={java}
# Containers outlive their NodeManager, which finds them again.
KillMode=process
SuccessExitStatus=143
[Install]
WantedBy=multi-user.target
"""
_DEBOOTSTRAP_S: Final = 600


def make_root(root: Path) -> None:
    """Make the root in a folder that is not there yet. Skips the test where debootstrap is missing."""
    if shutil.which("debootstrap") is None:
        pytest.skip("debootstrap not found: install debootstrap")
    include = ",".join((*PACKAGES, JAVA, "ca-certificates"))
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]  # its Python is that of this machine's own packages
    own_mounts = ["unshare", "--mount"]  # what debootstrap mounts ends with it, even if it is killed
    command = [*own_mounts, "debootstrap", "--variant=minbase", f"--include={include}", release, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEBOOTSTRAP_S, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for name in NOT_NEEDED:
        shutil.rmtree(root / name)
    (root / "var/lib/apt/lists").mkdir()
    for name in MASKED:
        unit = name if "." in name else f"{name}.service"
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    (root / "etc/machine-id").write_text("")
    for command in (["groupadd", "-g", "700", "hadoop"], ["useradd", "-u", "700", "-g", "hadoop", "-m", "yarn"]):
        subprocess.run(["chroot", str(root), *command], check=True)
    for folder in ("hadoop-yarn", "hadoop-yarn/local", "hadoop-yarn/logs"):
        (root / "var/lib" / folder).mkdir(exist_ok=True)
        shutil.chown(root / "var/lib" / folder, 700, 700)
    write_units(root)


def write_units(root: Path) -> None:
    """Write Hadoop's units, and enable sshd."""
    (home,) = (path for path in (root / "usr/lib/jvm").glob("java-*-openjdk-*") if not path.is_symlink())
    there = f"/usr/lib/jvm/{home.name}"
    for daemon, (main, heap_mb) in DAEMONS.items():
        options = [*jvm_options(None, heap_mb), "-Djava.io.tmpdir=/var/lib/hadoop-yarn"]
        java = [f"{there}/bin/java", *options, "-cp", f"{HADOOP_LIB}/*:/etc/hadoop/conf", main]
        unit = _UNIT.format(daemon=daemon, home=there, java=" ".join(java))
        (root / "etc/systemd/system" / f"hadoop-yarn-{daemon}.service").write_text(unit)
