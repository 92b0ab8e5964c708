"""The sidecar's unit leaves root the capabilities that it needs, and no other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.mountinfo import Hierarchy
from sidecar.resizer.cgroup.v1_mounts import hierarchies
from tests.paths import ROOT
from tests.sidecar.fakes import APP
from tests.sidecar.resizer.containers import end_session, needs_cgroup1, wait_until
from tests.sidecar.root_actions import ACTIONS, CID

NODEMANAGER, SUBMITTER = 65534, 65533
UNIT: Final = ROOT / "hadoop-conf" / "systemd" / "quicksilver-sidecar.service"
(BOUNDED,) = (line for line in UNIT.read_text().splitlines() if line.startswith("CapabilityBoundingSet="))
CAPABILITIES: Final = tuple(name.removeprefix("CAP_").lower() for name in BOUNDED.partition("=")[2].split())
WITHOUT: Final = {
    "dac_override": {"find", "nodemanagers_groups", "oom_score"},
    "kill": {"signals"},
    "net_admin": {"redirect"},
    "sys_ptrace": {"find"},
}
"""What fails without each of them."""
pytestmark = [
    pytest.mark.cgroup,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv"),
]


class Container:
    """A process as LinuxContainerExecutor starts it, with what its NodeManager has of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = ["env", "-i", f"CONTAINER_ID={CID}", "sleep", "1000"]
        self.process = subprocess.Popen(command, start_new_session=True, user=SUBMITTER, group=SUBMITTER)
        pid = self.process.pid
        wait_until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", "the command")
        private = folder / "nmPrivate"
        (private / APP / CID).mkdir(parents=True)
        (private / APP / CID / f"{CID}.pid").write_text(f"{pid}\n")
        self.groups = [hierarchy.mount / f"yarn-{folder.name}" for hierarchy in self._hierarchies()]
        for group in self.groups:
            (group / CID).mkdir(parents=True)
        for path in (private, *private.rglob("*"), *(path for group in self.groups for path in group.rglob("*"))):
            os.chown(path, NODEMANAGER, NODEMANAGER)
        private.chmod(0o700)

    @staticmethod
    def _hierarchies() -> list[Hierarchy]:
        return list({found.mount: found for name, found in hierarchies().items() if name != "memory"}.values())

    def refuses(self, action: str, capabilities: tuple[str, ...]) -> str:
        """Return what the kernel refused of an action, "" when it worked."""
        self._join(enter=action == "nodemanagers_groups")
        bounded = ",".join(("-all", *(f"+{name}" for name in capabilities)))
        bound = ["setpriv", "--no-new-privs", "--inh-caps=-all", f"--bounding-set={bounded}"]
        own_network = ["unshare", "--net"] if action == "redirect" else []
        arguments = [action, str(self.process.pid), str(self.folder)]
        done = subprocess.run(
            [*own_network, *bound, sys.executable, "-m", "tests.sidecar.root_actions", *arguments],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return done.stderr if done.returncode else ""

    def _join(self, *, enter: bool) -> None:
        for group in self.groups:
            files.write((group / CID if enter else group.parent) / "cgroup.procs", str(self.process.pid), "")

    def close(self) -> None:
        """End it, and remove its control groups."""
        self._join(enter=False)
        end_session(self.process.pid)
        self.process.wait(60)
        files.remove_empty(path for group in self.groups for path in (group / CID, group))
        files.remove_empty(group.parent / self.folder.name for group in self.groups)


@pytest.fixture
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    needs_cgroup1()
    one = Container(tmp_path_factory.mktemp(f"caps-{os.getpid()}-"))
    try:
        yield one
    finally:
        one.close()


def can_redirect() -> bool:
    """Return whether this kernel has nftables and lets a namespace be made."""
    script = 'echo "add table inet probe" | nft -f -'
    return subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, check=False).returncode == 0


def test_everything_works_with_the_capabilities_of_the_unit(container: Container) -> None:
    for action in ACTIONS:
        if action != "redirect" or can_redirect():
            assert container.refuses(action, CAPABILITIES) == "", action


def test_none_of_them_is_there_without_need(container: Container) -> None:
    assert set(CAPABILITIES) == set(WITHOUT)
    for name, actions in WITHOUT.items():
        left = tuple(other for other in CAPABILITIES if other != name)
        for action in sorted(actions):
            if action != "redirect" or can_redirect():
                refused = container.refuses(action, left)
                assert any(word in refused for word in ("not permitted", "denied", "CAP_")), (name, action, refused)
