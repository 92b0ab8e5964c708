"""Daemons that run as another user than root, with few capabilities or none."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from quicksilver_lab.cluster.baseconf import container_logs
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.commands import Launcher
from quicksilver_lab.cluster.daemon_processes import DaemonProcesses, Progress
from quicksilver_lab.cluster.daemons import NODEMANAGER, Daemon
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.spec import ClusterSpec

NM_USER: Final = "daemon"
"""A user of every Linux, in the place of yarn."""
_SYSTEM_PYTHON: Final = Path("/usr/bin/python3")


def nm_group() -> str:
    """Return the NodeManager's group."""
    return grp.getgrgid(pwd.getpwnam(NM_USER).pw_gid).gr_name


def as_nm_user(argv: Sequence[str], capabilities: Sequence[str] | None = None) -> list[str]:
    """Return the command line that runs a program as the NodeManager's user.

    capabilities: all that it has, and its children may get; None: it may run programs with the setuid bit.
    """
    user = ["setpriv", f"--reuid={NM_USER}", f"--regid={nm_group()}", "--clear-groups"]
    if capabilities is not None:
        names = ",".join(("-all", *(f"+{name}" for name in capabilities)))
        user += ["--no-new-privs", f"--inh-caps={names}", f"--ambient-caps={names}", f"--bounding-set={names}"]
    return [*user, *argv]


def python_for_everybody() -> list[str]:
    """Return the beginning of a command line by which another user runs this Python's modules; skip where none can."""
    path = Path(sys.executable).resolve()
    if all(folder.stat().st_mode & 1 for folder in path.parents):
        return [sys.executable]
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if _SYSTEM_PYTHON.resolve().name != version:
        pytest.skip(f"{path} is in a folder of root's own, and {_SYSTEM_PYTHON} is no {version}")
    own = Path(sys.base_prefix)  # with CAP_DAC_OVERRIDE the other Python would find the modules of this one
    paths = [path for path in sys.path if path and own not in Path(path).parents]
    return ["env", f"PYTHONPATH={os.pathsep.join(paths)}", str(_SYSTEM_PYTHON)]


class _UsersProcesses(DaemonProcesses):
    """Daemons of which the NodeManagers are another user's."""

    def spawn(self, daemons: Sequence[Daemon], launcher_of: Callable[[str], Launcher], progress: Progress) -> None:
        """Start daemons; make the folders that NodeManagers write to."""
        ready = []
        for daemon in daemons:
            if daemon.name.startswith(NODEMANAGER):
                launcher = launcher_of(daemon.name)
                java = launcher.argv(daemon.main_class, daemon.args, daemon.conf_dir, daemon.heap_mb, daemon.java_opts)
                self._make_folders()
                ready.append(replace(daemon, argv=tuple(as_nm_user(java))))
            else:
                ready.append(daemon)
        super().spawn(ready, launcher_of, progress)

    def _make_folders(self) -> None:
        spec = self._spec
        for node in spec.node_addresses:
            for folder in (spec.workdir / "local" / node.name, container_logs(spec, node)):
                folder.mkdir(parents=True, exist_ok=True)
                shutil.chown(folder, NM_USER, nm_group())
        (spec.workdir / "tmp").chmod(0o1777)


class UsersCluster(Cluster):
    """A cluster whose NodeManagers are not root's."""

    def __init__(self, spec: ClusterSpec) -> None:
        super().__init__(spec)
        self.processes = _UsersProcesses(self.spec)


class UsersDaemons(LocalDaemons):
    """Proxy, and sidecars of the NodeManager's user."""

    capabilities: tuple[str, ...] = ()

    def command(self, name: str, argv: Sequence[str]) -> list[str]:
        """Return the command line of the proxy, which stays root's, or of a sidecar."""
        if name.startswith("proxy"):
            return list(argv)
        shutil.chown(self.folder, NM_USER, nm_group())
        return as_nm_user([*python_for_everybody(), *argv[1:]], self.capabilities)


class OverridingDaemons(UsersDaemons):
    """Sidecars that may, besides, write files of other users: oom_score_adj of containers."""

    capabilities = ("dac_override",)


def give_group(top: Path) -> None:
    """Make a NodeManager's hierarchy, as an admin does for one that is not root: it and its files are the user's."""
    control = top.parent / "cgroup.subtree_control"
    if control.exists():
        control.write_text("+cpu")  # of version 2
    top.mkdir()
    for path in (top, *top.iterdir()):
        shutil.chown(path, NM_USER, nm_group())
