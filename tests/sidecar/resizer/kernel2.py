"""A kernel with cgroup v2 as a tree of files: what is written has the effect that cgroup-v2.rst says, or an error."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from sidecar.resizer.base import Leader
from sidecar.resizer.cgroup import files
from sidecar.resizer.processes import leader_of

_ALWAYS: Final = {
    "cgroup.procs": "",
    "cgroup.subtree_control": "",
    "cgroup.freeze": "0\n",
    "cgroup.events": "populated 0\nfrozen 0\n",
    "cpu.stat": "usage_usec 0\nuser_usec 0\n",
}
_OF: Final = {
    "cpu": {"cpu.max": "max 100000\n", "cpu.weight": "100\n", "cpu.pressure": "some avg10=25.00 avg60=0.00 total=1\n"},
    "memory": {
        "memory.high": "max\n",
        "memory.current": "409600\n",
        "memory.stat": "anon 3145728\nfile 99999999\n",
        "memory.reclaim": "",
        "memory.pressure": "some avg10=4.00 avg60=0.00 total=1\nfull avg10=2.00 avg60=0.00 total=1\n",
    },
}


class Kernel2:
    """Its cgroups, its /proc, and the errors that it shall answer with."""

    def __init__(self, tmp_path: Path, patch: pytest.MonkeyPatch, controllers: str = "cpu memory pids") -> None:
        self.mount, self.proc = tmp_path / "cgroup", tmp_path / "proc"
        self.errors: dict[str, list[int]] = {}
        """By the end of the path of a control file or a new group: errors for the next writes, 0 for none."""
        self.written: list[tuple[str, str]] = []
        self.freezes = True
        self.before_move: Callable[[int], None] = lambda pid: None
        self._mkdir, self._rmdir = Path.mkdir, Path.rmdir
        self.mount.mkdir()
        self._fill(self.mount, controllers)
        (self.proc / "self").mkdir(parents=True)
        (self.proc / "stat").write_text("cpu 0\nbtime 1700000000\n")
        self.mounted("rw")
        patch.setattr(files, "write", self.write)
        patch.setattr(Path, "mkdir", lambda path, mode=0o777, parents=False, exist_ok=False: self.mkdir(path, parents))
        patch.setattr(Path, "rmdir", lambda path: self.rmdir(path))

    def mounted(self, options: str, kind: str = "cgroup2", root: str = "/") -> None:
        """Say how it is mounted."""
        at = str(self.mount).replace(" ", "\\040")
        self._self("mountinfo", f"30 1 0:26 {root} {at} {options},nosuid - {kind} cgroup {options}\n")

    def group(self, path: str) -> Path:
        """Make a group that is somebody else's; all controllers are on above it."""
        level = self.mount
        for part in Path(path).parts:
            for controller in files.read(level / "cgroup.controllers").split():
                self.write(level / "cgroup.subtree_control", f"+{controller}", "")
            level /= part
            if not level.exists():
                level.mkdir()
        return level

    def spawn(self, pid: int, group: str = "", parent: int = 1, session: int = 0, state: str = "S") -> Leader:
        """Start a process."""
        folder = self.proc / str(pid)
        self._mkdir(folder, parents=True)
        words = [state, parent, session or pid, session or pid, *[0] * 7, 50, 50, 0, 0, 0, 0, 1, 0, 100, 0, 300]
        (folder / "stat").write_text(f"{pid} (a b) {' '.join(map(str, words))}\n")
        (folder / "statm").write_text("900 300 44 0 0 0 0\n")
        (folder / "cgroup").write_text(f"0::/{group}\n")
        with (self.mount / group / "cgroup.procs").open("a") as procs:
            procs.write(f"{pid}\n")
        leader = leader_of(pid, self.proc)
        assert leader is not None
        return leader

    def end(self, pid: int) -> None:
        """End a process."""
        self._leave(pid)
        shutil.rmtree(self.proc / str(pid))

    def pids(self, group: str) -> set[int]:
        """Return who is in a group."""
        return set(files.pids(self.mount / group))

    def groups(self) -> set[str]:
        """Return all groups below the root."""
        return {str(path.relative_to(self.mount)) for path in self.mount.rglob("*") if path.is_dir()}

    def text(self, path: str) -> str:
        """Return a control file's content."""
        return (self.mount / path).read_text().strip()

    def write(self, path: Path, text: str, container_id: str) -> None:
        """Stand in for `files.write`."""
        self._fail(path, container_id)
        if not path.exists():
            raise self._refused(path, container_id, errno.ENOENT)
        self.written.append((str(path.relative_to(self.mount)), text))
        if path.name == "cgroup.procs":
            self._move(path, int(text), container_id)
        elif path.name == "cgroup.subtree_control":
            on = set(path.read_text().split()) | {text.lstrip("+")}
            path.write_text(" ".join(sorted(on)) + "\n")
            for inner in (p for p in path.parent.iterdir() if p.is_dir()):
                self._fill(inner, " ".join(sorted(on)))
        elif path.name == "cgroup.freeze":
            path.write_text(text + "\n")
            frozen = text if self.freezes else "0"
            (path.parent / "cgroup.events").write_text(f"populated 1\nfrozen {frozen}\n")
        elif path.name == "cpu.max":
            quota, _, period = text.partition(" ")
            path.write_text(f"{quota} {period or path.read_text().split()[1]}\n")
        else:
            path.write_text(text + "\n")

    def mkdir(self, path: Path, parents: bool) -> None:
        """Stand in for `Path.mkdir`."""
        if self.mount not in path.parents:
            self._mkdir(path, parents=parents)
            return
        error = self._next(path)
        if error:
            raise OSError(error, os.strerror(error), str(path))
        if parents and not path.parent.exists():
            self.mkdir(path.parent, True)
        self._mkdir(path)
        self._fill(path, (path.parent / "cgroup.subtree_control").read_text().strip())

    def rmdir(self, path: Path) -> None:
        """Stand in for `Path.rmdir`."""
        if self.mount in path.parents and path.exists():
            if any(inner.is_dir() for inner in path.iterdir()) or files.pids(path):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
            for control in path.iterdir():
                control.unlink()
        self._rmdir(path)

    def vanish(self, group: str) -> None:
        """Remove a group and whoever is in it."""
        for pid in self.pids(group):
            self.end(pid)
        self.rmdir(self.mount / group)

    def _fill(self, group: Path, controllers: str) -> None:
        wanted = dict(_ALWAYS)
        for controller in controllers.split():
            wanted |= _OF.get(controller, {})
        for name, text in wanted.items():
            if not (group / name).exists():
                (group / name).write_text(text)
        (group / "cgroup.controllers").write_text(controllers + "\n")

    def _move(self, path: Path, pid: int, container_id: str) -> None:
        self.before_move(pid)
        if not (self.proc / str(pid)).exists():
            raise self._refused(path, container_id, errno.ESRCH)
        self._leave(pid)
        with path.open("a") as procs:
            procs.write(f"{pid}\n")
        (self.proc / str(pid) / "cgroup").write_text(
            f"0::/{path.parent.relative_to(self.mount)}\n".replace("/.\n", "/\n")
        )

    def _leave(self, pid: int) -> None:
        for procs in self.mount.rglob("cgroup.procs"):
            left = [word for word in procs.read_text().split() if int(word) != pid]
            procs.write_text("".join(f"{word}\n" for word in left))

    def _next(self, path: Path) -> int:
        for end, errors in self.errors.items():
            if str(path).endswith(end) and errors:
                return errors.pop(0)
        return 0

    def _fail(self, path: Path, container_id: str) -> None:
        error = self._next(path)
        if error:
            raise self._refused(path, container_id, error)

    def _refused(self, path: Path, container_id: str, error: int) -> Exception:
        cause = OSError(error, os.strerror(error))
        refusal = files.refused(container_id, path, cause)
        refusal.__cause__ = cause
        return refusal

    def _self(self, name: str, text: str) -> None:
        (self.proc / "self" / name).write_text(text)
