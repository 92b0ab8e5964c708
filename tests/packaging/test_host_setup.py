"""What the packages' scripts make of a host: users, groups, and what each of them may read. In a copy of this root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.paths import ROOT

# Everything is in a mount namespace that ends with the script; the root file system is its lower layer.
IN_A_COPY: Final = """
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" "$1/root"
cp -r "$2/deploy/packages" "$1/root/opt/scripts"
exec chroot "$1/root" sh -c "$3"
"""
SETUP: Final = "sh /opt/scripts/tree/setup-host 2>/dev/null"
SECRETS: Final = """
for file in tls/key tokens; do
  touch /etc/quicksilver/$file; chown root:quicksilver-tls /etc/quicksilver/$file; chmod 640 /etc/quicksilver/$file
done
touch /etc/quicksilver/quicksilver.yaml
chown root:quicksilver /etc/quicksilver/quicksilver.yaml; chmod 640 /etc/quicksilver/quicksilver.yaml
for daemon in proxy app-server sidecar; do touch /var/lib/quicksilver/$daemon/state; done
for daemon in proxy app-server; do touch /var/log/quicksilver/$daemon/audit.log; done
"""
READS: Final = """
for file in $(find /etc/quicksilver /var/lib/quicksilver /var/log/quicksilver -type f); do
  setpriv --reuid USER --regid USER --init-groups cat $file >/dev/null 2>&1 && echo $file || true
done
"""


def in_a_copy(folder: Path, script: str) -> str:
    """Run a script as root in a copy of this machine's root; return what it writes."""
    command = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        IN_A_COPY,
        "sh",
        str(folder),
        str(ROOT),
        script,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if "overlay" in done.stderr:
        pytest.skip(f"no overlay here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return done.stdout


pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="mounts, and makes users in a copy")]


@pytest.mark.parametrize(
    ("user", "reads"),
    [
        ("proxy", {"etc/tls/key", "etc/tokens", "etc/quicksilver.yaml", "lib/proxy/state", "log/proxy/audit.log"}),
        (
            "app-server",
            {"etc/tls/key", "etc/tokens", "etc/quicksilver.yaml", "lib/app-server/state", "log/app-server/audit.log"},
        ),
        ("tracker", {"etc/quicksilver.yaml"}),
    ],
)
def test_each_daemon_reads_its_own_and_what_is_shared(tmp_path: Path, user: str, reads: set[str]) -> None:
    script = f"set -e\n{SETUP}\n{SETUP}\n{SECRETS}{READS.replace('USER', f'quicksilver-{user}')}"
    found = in_a_copy(tmp_path, script).split()
    short = {name.replace("quicksilver/", "", 1).lstrip("/").removeprefix("var/") for name in found}
    assert short == reads


def test_nothing_is_left_after_a_purge(tmp_path: Path) -> None:
    script = (
        f"set -e\n{SETUP}\nsh /opt/scripts/debian/postrm purge\ngrep quicksilver /etc/passwd /etc/group || echo none"
    )
    assert in_a_copy(tmp_path, script) == "none\n"
