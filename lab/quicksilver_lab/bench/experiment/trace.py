"""A trace of one's own jobs as a mix: they come when they arrive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from policies.settings_model import SettingsModel
from quicksilver.common.errors import QuicksilverError
from quicksilver.simulator.traces.formats.registry import FORMATS, read_specs
from quicksilver.simulator.traces.lines import Mistakes, TraceError
from quicksilver_lab.bench.emulator.jobs import Scaling, scaled
from quicksilver_lab.bench.emulator.model import JobSpec
from quicksilver_lab.bench.emulator.nodes.nodes import host_of
from quicksilver_lab.bench.experiment.goals import known
from quicksilver_lab.bench.experiment.step import TASK_MB
from quicksilver_lab.bench.mixes.mixes import ClusterSize, Mix, shuffled

_JOBS_LIMIT: Final = 100_000


class OfferedTrace(SettingsModel):
    """A file of jobs (lab/docs/traces.md), and how they are fitted to a small cluster."""

    file: str | None = None
    """Relative to the working directory; left out: `--trace FILE` names it."""
    format: Annotated[str, known("format", FORMATS)] | None = None
    """Left out: as the file begins."""
    skip: bool = False
    """Whether broken jobs are left out and counted, instead of an error."""
    first: int | None = Field(None, ge=1)
    """So many jobs; left out: all."""
    speed: float = Field(1.0, gt=0)
    """Arrivals come so many times as fast."""
    times: float = Field(1.0, gt=0)
    """Tasks take so many times as long."""
    most_tasks: int | None = Field(None, ge=1)
    """Of a job; a wider one keeps so many, of each stage in proportion. Left out: all."""
    most_s: float | None = Field(None, gt=0)
    """Longest duration of a task, seconds; None: no limit."""
    memory_mb: int = Field(TASK_MB, ge=1)
    """Of each container; a slot has 1024 MB."""
    local: bool = False
    """Whether input lies on hosts, where the trace names any."""

    @property
    def name(self) -> str:
        """The file's, "trace" where none is named."""
        return Path(self.file).name if self.file else "trace"

    def jobs(self, nodes: int, mistakes: Mistakes | None = None) -> list[JobSpec]:
        """Return the jobs as fitted to so many nodes, by arrival. Raises QuicksilverError, TraceError."""
        if self.file is None:
            raise QuicksilverError("the plan names no trace", remedy="name one with --trace FILE, or as `trace.file`")
        hosts = tuple(host_of(number) for number in range(nodes)) if self.local else ()
        fit = Scaling(
            self.first, self.speed, self.times, self.most_tasks, self.most_s, self.memory_mb, "default", hosts
        )
        specs = read_specs(Path(self.file), self.format, mistakes=mistakes or Mistakes(skip=self.skip))
        try:
            jobs = list(islice(scaled(specs, fit), _JOBS_LIMIT + 1))
        except TraceError as error:
            for option, key in (("--skip", "skip: true"), ("--format", "format:")):
                error.remedy = error.remedy.replace(option, f"`{key}` of the plan's trace")
            raise
        if len(jobs) > _JOBS_LIMIT:
            raise QuicksilverError(
                f"more than {_JOBS_LIMIT} jobs", place=self.file, remedy="take fewer with `trace.first`"
            )
        return jobs

    def mix(self) -> Mix:
        """Return the trace as an open mix; with each seed but 1 neighbours change places."""
        return Mix(self.name, f"the jobs of {self.name}", _SIZE, _Drawn(self))


_SIZE: Final = ClusterSize(drain_s=600.0, longest_s=60.0)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Draws the jobs of a trace."""

    trace: OfferedTrace

    def __call__(self, mix: Mix, seed: int) -> Sequence[JobSpec]:
        return shuffled(self.trace.jobs(mix.size.nodes), seed)
