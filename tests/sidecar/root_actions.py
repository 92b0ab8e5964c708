"""What a sidecar does as root, an action by its name: `python -m tests.sidecar.root_actions ACTION PID FOLDER`.

PID is the session leader of a container, another user's; FOLDER a NodeManager's local directory, with the container's
pid file in it. Each action raises what the kernel refuses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from quicksilver.common.address import Address
from sidecar.connections.nftables import Redirect
from sidecar.memory.cgroup_fence import prefer_for_oom
from sidecar.resizer.base import Leader, Resizer
from sidecar.resizer.cgroup.v1 import Cgroup1
from sidecar.resizer.processes import leader_of, look
from sidecar.resizer.signals import Signals
from sidecar.service.processes.pid_file import PrivateFolder, doubt, read_pid_file
from tests.sidecar.fakes import APP, cid

CID: Final = cid(2)


def resized(resizer: Resizer, leader: Leader) -> None:
    """Take a container through everything that a resizer does."""
    resizer.attach(CID, leader)
    resizer.shrink(CID, 0.05)
    assert resizer.holds(CID)
    resizer.freeze(CID)
    assert resizer.holds(CID)
    resizer.restore(CID)
    assert resizer.holds(CID)
    assert resizer.usage(CID).cpu_s is not None
    resizer.detach(CID)
    resizer.close()


def find(leader: Leader, folder: Path) -> None:
    """Read the NodeManager's pid file, and the environment of the process."""
    with PrivateFolder(folder) as private:
        file, process = read_pid_file(private, APP, CID), look(leader.pid)
    assert file is not None
    assert process is not None
    assert file.pid == leader.pid
    why = doubt(file, process, CID, 0.0)
    assert not why, why


def own_groups(leader: Leader, folder: Path) -> None:
    """Move it into a control group of the sidecar's."""
    resized(Cgroup1(folder.name), leader)


def nodemanagers_groups(leader: Leader, folder: Path) -> None:
    """Bound the NodeManager's control group, which belongs to its user."""
    resizer = Cgroup1(folder.name, f"/yarn-{folder.name}")
    resizer.attach(CID, leader)
    resizer.shrink(CID, 0.05)
    resizer.restore(CID)
    resizer.detach(CID)


def signals(leader: Leader, folder: Path) -> None:
    """Stop it and let it go on."""
    resized(Signals(), leader)


def oom_score(leader: Leader, folder: Path) -> None:
    """Let the kernel kill it before guaranteed containers."""
    assert prefer_for_oom([leader.pid], 500) == 1


def redirect(leader: Leader, folder: Path) -> None:
    """Redirect starts to the sidecar's port."""
    rule = Redirect(Address("127.0.0.11", 8041), 18041)
    rule.install()
    rule.remove()


ACTIONS: Final[dict[str, Callable[[Leader, Path], None]]] = {
    action.__name__: action for action in (find, own_groups, nodemanagers_groups, signals, oom_score, redirect)
}

if __name__ == "__main__":
    found = leader_of(int(sys.argv[2]))
    assert found is not None
    ACTIONS[sys.argv[1]](found, Path(sys.argv[3]))
