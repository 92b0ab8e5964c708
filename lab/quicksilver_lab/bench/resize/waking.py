"""How long a restored container takes to run again: from before its limits are written to its first instruction."""

from __future__ import annotations

import mmap
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from quicksilver_lab.bench.resize import burn
from quicksilver_lab.bench.resize.calls import Samples, cgroup_resizer
from quicksilver_lab.bench.resize.stand_ins import ResizeStandIn, StandInError, running
from sidecar.resizer.base import Resizer

CORES: Final = (0.05, 0.01)
"""What the container had before: the default of `preempt: las`, and the least that the kernel takes for 100 ms."""
_STOPPED_NS: Final = 10_000_000
"""It has been stopped by its quota when it did not run for so long."""
_WAIT_S: Final = 5.0
_AFTER_S: Final = 0.2
"""So long it is watched after it was restored."""
_CPU_S_MAX: Final = 120


class Notes:
    """What a burner wrote down."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(burn.BYTES))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), burn.BYTES)
        self._numbers = memoryview(self._map).cast("q")

    def close(self) -> None:
        """Give the file back."""
        self._numbers.release()
        self._map.close()

    @property
    def ran_ns(self) -> int:
        """When it ran last; 0 before it began."""
        return self._numbers[2 * burn.GAPS + 1]

    def went_on_ns(self, at_ns: int) -> int | None:
        """Return when it went on after it stood still at `at_ns`; None when it did not stand still then."""
        count = self._numbers[2 * burn.GAPS]
        for number in range(max(0, count - burn.GAPS), count):
            at = 2 * (number % burn.GAPS)
            if self._numbers[at] <= at_ns < self._numbers[at + 1]:
                return self._numbers[at + 1]
        return None


def measure(times: int) -> Samples:
    """Return milliseconds by what the container had before, and the cores that it used just afterwards."""
    samples: Samples = {}
    with _burner() as (stand_in, notes), cgroup_resizer() as resizer:
        resizer.attach(stand_in.id, stand_in.leader)
        for cores in CORES:
            pairs = [_once(resizer, stand_in, notes, cores) for _ in range(times)]
            samples[f"from_{cores:g}_ms"] = [latency_ms for latency_ms, _ in pairs]
            samples[f"from_{cores:g}_cores_after"] = [cores_after for _, cores_after in pairs]
    return samples


def _once(resizer: Resizer, stand_in: ResizeStandIn, notes: Notes, cores: float) -> tuple[float, float]:
    resizer.shrink(stand_in.id, cores)
    _await_stop(notes, stand_in)
    before_s, begun_ns = _cpu_s(resizer, stand_in), time.monotonic_ns()
    resizer.restore(stand_in.id)
    time.sleep(_AFTER_S)
    used_s, seconds = _cpu_s(resizer, stand_in) - before_s, (time.monotonic_ns() - begun_ns) / 1e9
    went_on_ns = notes.went_on_ns(begun_ns)
    if went_on_ns is None:
        raise StandInError(f"it did not go on within {_AFTER_S:g} s", place=stand_in.id)
    return (went_on_ns - begun_ns) / 1e6, used_s / seconds


def _await_stop(notes: Notes, stand_in: ResizeStandIn) -> None:
    """Wait until the quota has stopped the burner: it is in the middle of a period, with nothing left of it."""
    until_s = time.monotonic() + _WAIT_S
    while time.monotonic_ns() - notes.ran_ns < _STOPPED_NS:
        if time.monotonic() > until_s:
            raise StandInError(f"its quota did not stop it within {_WAIT_S:g} s", place=stand_in.id)
        time.sleep(0.001)


def _cpu_s(resizer: Resizer, stand_in: ResizeStandIn) -> float:
    used_s = resizer.usage(stand_in.id).cpu_s
    if used_s is None:
        raise StandInError("it has ended before it was measured", place=stand_in.id)
    return used_s


@contextmanager
def _burner() -> Iterator[tuple[ResizeStandIn, Notes]]:
    with tempfile.TemporaryDirectory(prefix="qs-") as folder:
        notes = Notes(Path(folder) / "notes")
        command = [sys.executable, "-S", "-E", "-I", str(burn.__file__), str(Path(folder) / "notes"), str(_CPU_S_MAX)]
        try:
            with running([command]) as (stand_in,):
                until_s = time.monotonic() + _WAIT_S
                while not notes.ran_ns:
                    if time.monotonic() > until_s:
                        raise StandInError(f"it did not begin within {_WAIT_S:g} s", place=stand_in.id)
                    time.sleep(0.01)
                yield stand_in, notes
        finally:
            notes.close()
