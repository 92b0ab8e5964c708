"""What a cluster remembers in its folder: its spec, and the processes that it started."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict, ValidationError

from quicksilver_lab.cluster.errors import StateError
from quicksilver_lab.cluster.processes import ProcessId
from quicksilver_lab.cluster.spec import ClusterSpec

_FILE = "cluster.json"
_POLL_S = 0.05


class LocalClusterState(BaseModel):
    """The content of cluster.json."""

    model_config = ConfigDict(extra="forbid")

    spec: ClusterSpec
    daemons: dict[str, ProcessId] = {}


def load(workdir: Path) -> LocalClusterState | None:
    """Return what was saved in `workdir`, None when nothing was. Raises StateError when it cannot be read."""
    path = workdir / _FILE
    try:
        return LocalClusterState.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as error:
        raise StateError(
            f"{path} is damaged ({error.error_count()} errors). End its processes, then delete {workdir}."
        ) from error


def save(state: LocalClusterState) -> None:
    """Write it, so that a reader sees either the old or the new one."""
    path = state.spec.workdir / _FILE
    fresh = path.with_suffix(".new")
    fresh.write_text(state.model_dump_json(indent=2))
    fresh.replace(path)


@contextmanager
def exclusive(workdir: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Exclude a second start, stop or restart in the same folder.

    Raises StateError when one is under way, and still is after `wait_s`.
    """
    try:
        workdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"{workdir}: {error.strerror}. Choose another folder.") from error
    with (workdir / ".lock").open("w") as handle:
        deadline = time.monotonic() + wait_s
        while not _locked(handle):
            if time.monotonic() >= deadline:
                raise StateError(f"{workdir}: another command is starting or stopping this cluster. Wait for it.")
            time.sleep(_POLL_S)
        yield


def _locked(handle: IO[str]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
