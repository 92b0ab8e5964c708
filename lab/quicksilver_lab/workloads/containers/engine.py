"""The Docker daemon that builds and runs: one that answers already, else a private one."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quicksilver_lab.workloads.errors import WorkloadError
from quicksilver_lab.workloads.servers.dockerd import running_dockerd

Progress = Callable[[str], None]
CALL_S: Final = 120.0
BUILD_S: Final = 1800.0
_TAIL_LINES: Final = 12


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """A Docker daemon; commands talk to it by `env`."""

    env: Mapping[str, str]
    private: bool
    """Whether it ends, with all it has, after the work."""

    def run(
        self, argv: Sequence[str], *, timeout_s: float = CALL_S, stdin: bytes = b"", cwd: Path | None = None
    ) -> str:
        """Run a program that talks to the daemon, and return its output. Raises WorkloadError when it fails."""
        shown = " ".join(argv[:6])
        try:
            done = subprocess.run(
                argv, input=stdin, capture_output=True, env={**os.environ, **self.env}, timeout=timeout_s, cwd=cwd
            )
        except FileNotFoundError as error:
            raise WorkloadError(f"{argv[0]} is missing", place="Docker", remedy=f"install {argv[0]}") from error
        except subprocess.TimeoutExpired as error:
            raise WorkloadError(f"`{shown}` was not done after {timeout_s:g} s", place="Docker") from error
        if done.returncode != 0:
            lines = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()[-_TAIL_LINES:]
            raise WorkloadError(f"`{shown}` failed:\n" + "\n".join(lines), place="Docker")
        return done.stdout.decode(errors="replace").strip()

    def docker(self, *arguments: str, timeout_s: float = CALL_S, stdin: bytes = b"") -> str:
        """Run `docker ARGUMENTS`. Raises WorkloadError when it fails."""
        return self.run(["docker", *arguments], timeout_s=timeout_s, stdin=stdin)


@contextmanager
def engine(progress: Progress, *, private: bool = False) -> Iterator[ContainerEngine]:
    """Yield the daemon that answers (DOCKER_HOST counts), or one for the time of the block that leaves nothing.

    private: take one's own even where another one answers. Raises WorkloadError when no daemon can run here.
    """
    own = ContainerEngine({}, private=False)
    if not private and _answers(own):
        yield own
        return
    progress("starting a Docker daemon of our own" + ("" if private else ": none answers"))
    folder = Path(tempfile.mkdtemp(prefix="quicksilver-docker-"))
    with running_dockerd(folder, storage_driver=storage_driver(folder)) as daemon:
        yield ContainerEngine(daemon.docker_cli_env, private=True)


def storage_driver(folder: Path) -> str:
    """Return overlay2 where the kernel can lay one over `folder`, else vfs, which copies each layer."""
    known = "overlay" in Path("/proc/filesystems").read_text().split()
    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=True
    ).stdout.strip()
    return "overlay2" if known and kind != "overlayfs" else "vfs"


def _answers(candidate: ContainerEngine) -> bool:
    try:
        candidate.docker("version")
    except WorkloadError:
        return False
    return True
