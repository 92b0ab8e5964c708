"""What a run may leave behind on the machine: processes, control groups, mounts, lines of /etc/hosts."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.gate.stacks import command_of

CGROUPS: Final = Path("/sys/fs/cgroup")
MOUNTS: Final = Path("/proc/self/mountinfo")
HOSTS: Final = Path("/etc/hosts")
GRACE_S: Final = 5
"""What ends by itself within this time was not left behind."""


@dataclass(frozen=True)
class Machine:
    """What there is beside processes; compared with what there was before."""

    cgroups: frozenset[Path]
    mounts: frozenset[str]
    hosts: tuple[str, ...]

    @classmethod
    def now(cls, cgroups: Path = CGROUPS) -> Machine:
        mounts = [line.split()[4] for line in MOUNTS.read_text().splitlines()]
        found = (Path(folder) / name for folder, names, _ in os.walk(cgroups) for name in names)
        ours = frozenset(path for path in found if path.name.startswith("quicksilver"))
        return cls(ours, frozenset(mounts), tuple(HOSTS.read_text().splitlines()))


def remove_groups(before: Machine, now: Machine) -> list[str]:
    """Remove control groups that are new and empty, inner ones first; returns a line for each that was left behind.

    Groups with processes, and those named after a process that lives, are somebody else's: of ours, none is left.
    """
    lines = []
    for path in sorted(now.cgroups - before.cgroups):
        if not path.is_dir() or _is_anothers(path):
            continue
        try:
            for inner in sorted((folder for folder in path.rglob("*") if folder.is_dir()), reverse=True):
                inner.rmdir()
            path.rmdir()
            lines.append(f"control group {path}")
        except OSError as error:
            lines.append(f"control group {path}, which cannot be removed: {error.strerror}")
    return lines


def unmount(before: Machine, now: Machine, below: Path) -> list[str]:
    """Unmount what is new below a folder, inner ones first; returns a line for each mount that was left behind.

    What a process that lives has in its command line is somebody else's: of ours, none is left.
    """
    lines = []
    commands = [" ".join(process.info["cmdline"] or ()) + "/" for process in psutil.process_iter(["cmdline"])]
    for mount in sorted((one for one in now.mounts - before.mounts if below in Path(one).parents), reverse=True):
        folder = below / Path(mount).relative_to(below).parts[0]
        if any(re.search(f"{re.escape(str(folder))}[/ ]", command) for command in commands):
            continue
        done = subprocess.run(["umount", mount], capture_output=True, text=True, check=False)
        why = f", which cannot be unmounted: {done.stderr.strip()}" if done.returncode else ""
        lines.append(f"mount {mount}{why}")
    return lines


def _is_anothers(group: Path) -> bool:
    owner = re.search(r"-(\d+)$", group.name)
    if owner is not None and psutil.pid_exists(int(owner[1])):
        return True
    return any(file.read_text().strip() for file in group.rglob("cgroup.procs"))


def changes(before: Machine, now: Machine, below: Path) -> list[str]:
    """Return a line for each line of /etc/hosts that was left behind, and for each mount that is not below a folder."""
    return [
        *(f"mount {mount}" for mount in sorted(now.mounts - before.mounts) if below not in Path(mount).parents),
        *(f"{HOSTS}: {line!r} is new" for line in now.hosts if line not in before.hosts),
        *(f"{HOSTS}: {line!r} is gone" for line in before.hosts if line not in now.hosts),
    ]


def descendants() -> list[psutil.Process]:
    """Return the processes that this one started, and what these started, zombies excepted."""
    return [process for process in psutil.Process().children(recursive=True) if _runs(process)]


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def remaining(grace_s: float = GRACE_S) -> list[psutil.Process]:
    """Return what still runs, after a short while in which it may end."""
    ends = time.monotonic() + grace_s
    while (found := descendants()) and time.monotonic() < ends:
        time.sleep(0.1)
    return found


def end(processes: Sequence[psutil.Process], term_s: float = GRACE_S) -> list[str]:
    """End processes by SIGTERM, then SIGKILL, with all that they start meanwhile; returns their command lines."""
    lines = [f"process {command_of(process)}" for process in processes]
    for process in processes:
        _send(process, "terminate")
    ends = time.monotonic() + term_s
    while (left := descendants()) and time.monotonic() < ends:
        time.sleep(0.1)
    ends = time.monotonic() + 20
    while left and time.monotonic() < ends:
        for process in left:
            _send(process, "kill")
        time.sleep(0.1)
        left = descendants()
    return lines + [f"process {command_of(process)} does not even end by SIGKILL" for process in left]


def _send(process: psutil.Process, what: str) -> None:
    try:
        getattr(process, what)()
    except psutil.NoSuchProcess:
        return
