"""Debian roots with Python and rpm alone, in which packages are installed and run.

Mounts are made in a mount namespace of each command, so that they end with it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from configparser import RawConfigParser
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons

_ENTER: Final = """
root=$1
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
while [ "$2" != -- ]; do
  mount --bind "$2" "$root/$3"
  shift 2
done
shift 2
exec "$@"
"""
SETTINGS: Final = "etc/quicksilver/quicksilver.yaml"


def debootstrap(folder: Path, *packages: str) -> None:
    """Make a minimal root of this machine's release, from the mirror that apt uses here."""
    release = {}
    for line in Path("/etc/os-release").read_text().splitlines():
        name, _, value = line.partition("=")
        release[name] = value.strip('"')
    columns = "$(REPO_URI) $(CODENAME) $(COMPONENT)"
    command = ["apt-get", "indextargets", "--format", columns, "Created-By: Packages"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    wanted = f" {release['VERSION_CODENAME']} main"
    mirror = next(line.removesuffix(wanted) for line in found if line.endswith(wanted))
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}"]
    done = subprocess.run(
        [*command, release["VERSION_CODENAME"], str(folder), mirror], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


@dataclass(frozen=True)
class Root:
    """A root directory."""

    path: Path

    def copy(self, target: Path) -> Root:
        subprocess.run(["cp", "-a", "--reflink=auto", str(self.path), str(target)], check=True)
        return Root(target)

    def put(self, file: Path) -> str:
        """Copy a file into the root; return its name there."""
        shutil.copy(file, self.path / "root" / file.name)
        return f"/root/{file.name}"

    def command(
        self,
        *words: str,
        binds: Mapping[Path, str] | None = None,
        env: Mapping[str, str] | None = None,
        user: str = "",
        folder: str = "/",
    ) -> list[str]:
        """Return the command that runs `words` in the root. binds: files and folders, and where they are in it."""
        mounts = []
        for source, target in (binds or {}).items():
            place = self.path / target.lstrip("/")
            if source.is_dir():
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()
            mounts += [str(source), target.lstrip("/")]
        as_user = [f"--userspec={user}:{user}"] if user else []
        values = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"} | dict(env or {})
        inside = ["env", "-i", f"--chdir={folder}", *(f"{name}={value}" for name, value in values.items()), *words]
        enter = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _ENTER, "sh", str(self.path)]
        return [*enter, *mounts, "--", "chroot", *as_user, str(self.path), *inside]

    def run(self, *words: str, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command in the root."""
        command = self.command(*words, **options)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert not check or done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done


@dataclass(frozen=True)
class Unit:
    """What a unit file says of its process."""

    command: Sequence[str]
    env: Mapping[str, str]
    user: str
    folder: str


def read_unit(file: Path) -> Unit:
    """Read the lines of a unit that make its process."""
    env: dict[str, str] = {}
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    text = file.read_text()
    parser.read_string(text)
    for line in text.splitlines():
        if line.startswith("Environment="):
            name, _, value = line.removeprefix("Environment=").partition("=")
            env[name] = value.replace("%H", os.uname().nodename)
    service = parser["Service"]
    return Unit(shlex.split(service["ExecStart"]), env, service.get("User", ""), service.get("WorkingDirectory", "/"))


class InstalledDaemons(LocalDaemons):
    """Proxy and sidecars run by the lines of the units that are installed in a root, with the settings in /etc."""

    def __init__(self, cluster: Cluster, root: Root, units: str, **options: Any) -> None:
        default = {"store_url": None, "state_dir": None}
        super().__init__(cluster, proxy=default, sidecar={"state_dir": None}, **options)
        self.root, self.units = root, root.path / units.lstrip("/")

    def binds(self, name: str) -> dict[Path, str]:
        """Return the files of a daemon and where its unit looks for them."""
        nodes = {
            node.name: folder
            for node, folder in zip(self.cluster.spec.node_addresses, self.cluster.node_conf_dirs, strict=True)
        }
        workdir = self.cluster.spec.workdir
        return {
            workdir: str(workdir),  # the NodeManager's private files
            nodes.get(name, self.cluster.conf_dir): "/etc/hadoop/conf",
            self.folder / f"{name}.yaml": f"/{SETTINGS}",
        }

    def _spawn(self, name: str, arguments: list[str]) -> None:
        role = "proxy" if name.startswith("proxy") else "sidecar"
        unit = read_unit(self.units / f"quicksilver-{role}.service")
        assert arguments[:2] == [role, "run"]
        log = self.log(name).open("ab")
        self._logs.append(log)
        command = self.root.command(
            *unit.command, binds=self.binds(name), env=unit.env, user=unit.user, folder=unit.folder
        )
        self.processes[name] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
