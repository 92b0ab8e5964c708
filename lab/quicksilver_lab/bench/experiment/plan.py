"""A plan: which jobs run under which competitors, how often and on which cluster. A YAML file, checked by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from policies.config.validation import validate
from policies.errors import Mistake
from policies.settings_model import SettingsModel
from quicksilver.common.errors import QuicksilverError
from quicksilver_apps.description.document import Document, parse_text, read_text
from quicksilver_apps.description.mistakes import DescriptionMistake
from quicksilver_lab.bench.experiment.goals import BEST, ComparedGoal, Runner, known
from quicksilver_lab.bench.experiment.step import BOUNDS, Step
from quicksilver_lab.bench.experiment.trace import OfferedTrace
from quicksilver_lab.bench.mercury.competitors import BY_NAME as COMPETITORS
from quicksilver_lab.bench.mercury.competitors import OWN_OPPORTUNISTIC
from quicksilver_lab.bench.mixes.goals import TUNED
from quicksilver_lab.bench.mixes.mixes import BY_NAME as MIXES
from quicksilver_lab.bench.mixes.mixes import GUARANTEES, Mix, halved, mix_named, resized
from quicksilver_lab.cluster.runtime.releases import DEFAULT, RELEASES
from quicksilver_lab.papers.workloads.mercury import WORKLOADS

PLANS: Final = Path(__file__).parents[2] / "plans"
"""Plans that are found by name."""
_REMEDY: Final = "see lab/docs/benchmarks.md"

Best = Callable[[str], str | None]
"""Returns the best of Hadoop's own opportunistic competitors on a workload, None before the first seed ended."""


Names = tuple[Runner, ...]


class PlannedCluster(SettingsModel):
    """Of the emulated cluster, and how long it is observed; what is left out is as each mix has it."""

    nodes: int | None = Field(None, ge=1, le=1000)
    """With other slots a mix has jobs in proportion, ten at least."""
    cores: int | None = Field(None, ge=1, le=128)
    """Slots of each node."""
    warm_s: float | None = Field(None, gt=0)
    """Of a closed mix, before the window."""
    window_s: float | None = Field(None, gt=0)
    """Of a closed mix."""
    drain_s: float | None = Field(None, gt=0)
    """After the last arrival, or the window; jobs that are not over then count as lost."""
    longest_s: float | None = Field(None, ge=0)
    """About how long the drain takes, for the estimate of the whole."""


class PlannedJobs(SettingsModel):
    """Jobs, and who runs them. A name alone stands for `mix: NAME`."""

    mix: Annotated[str, known("mix", (*MIXES, *WORKLOADS))] | None = None
    """A mix, or a workload of Mercury."""
    trace: OfferedTrace | None = None
    """In place of a mix."""
    competitors: Names | None = None
    """Left out: the plan's."""
    once: Names = ()
    """More of them, with the first seed alone."""
    seeds: int | None = Field(None, ge=1, le=30)
    """Left out: the plan's."""
    cluster: PlannedCluster = PlannedCluster()
    """Laid over the plan's."""

    @model_validator(mode="after")
    def _either(self) -> PlannedJobs:
        if (self.mix is None) == (self.trace is None):
            raise ValueError("needs either `mix` or `trace`")
        return self

    @property
    def name(self) -> str:
        """The mix, or the file of the trace."""
        return self.mix or (self.trace.name if self.trace else "")


class ExperimentPlan(SettingsModel):
    """What `quicksilver bench run` runs."""

    about: str
    """One line, for `quicksilver bench list`."""
    workloads: tuple[PlannedJobs, ...] = Field(min_length=1)
    """Run in this order, seed after seed of all of them."""
    competitors: Names = ()
    """The order rotates from seed to seed; all competitors of a seed get the same jobs."""
    beside: Names = ()
    """Of them those that are shown, but are not among the best of stock YARN."""
    candidate: Annotated[str, known("competitor", COMPETITORS)] = "quicksilver"
    """The competitor that has to reach the promises; without it the first of quicksilver's."""
    promises: bool = False
    """Whether the result has the goals of the mixes (`quicksilver_lab.bench.mixes.goals`)."""
    goals: tuple[ComparedGoal, ...] = ()
    """More goals."""
    seeds: int = Field(3, ge=1, le=30)
    """From 1 to this one."""
    lanes: int = Field(1, ge=1, le=8)
    """Runs at a time; a second one bends the latencies of the first."""
    hadoop: Annotated[str, known("version of Hadoop", RELEASES)] = DEFAULT
    """Of the ResourceManager."""
    cluster: PlannedCluster = PlannedCluster()
    halved: bool = False
    """Whether mixes have half of their jobs, closed ones half of their window."""
    quick: dict[str, Any] = Field(default_factory=dict)
    """Keys that `--quick` lays over all others."""

    @model_validator(mode="after")
    def _complete(self) -> ExperimentPlan:
        names = [jobs.name for jobs in self.workloads]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{', '.join(twice)} stands twice among the workloads: take one away")
        for jobs in self.workloads:
            if not self.listed(jobs):
                raise ValueError(f"nobody runs {jobs.name}: name competitors, of the plan or of this workload")
        for goal in self.goals:
            if goal.workload not in (*names, *MIXES, *WORKLOADS):
                raise ValueError(f"the goal {goal.key} is on {goal.workload}: name one of {', '.join(names)}")
        return self

    def listed(self, jobs: PlannedJobs) -> tuple[str, ...]:
        """Return the competitors of a workload, as the plan names them."""
        return (*(self.competitors if jobs.competitors is None else jobs.competitors), *jobs.once)

    def runners(self, jobs: PlannedJobs) -> tuple[str, ...]:
        """Return the competitors of a workload; the best of Hadoop's own ones may be any of these."""
        names = [OWN_OPPORTUNISTIC if name == BEST else (name,) for name in self.listed(jobs)]
        return tuple(dict.fromkeys(name for group in names for name in group))

    @property
    def names(self) -> tuple[str, ...]:
        """The competitors of all workloads."""
        return tuple(dict.fromkeys(name for jobs in self.workloads for name in self.runners(jobs)))

    def stock(self, jobs: PlannedJobs) -> tuple[str, ...]:
        """Return the competitors of a workload among which the best is taken."""
        return tuple(n for n in self.runners(jobs) if not COMPETITORS[n].quicksilver and n not in self.beside)

    def candidates(self, jobs: PlannedJobs) -> tuple[str, ...]:
        """Return those of quicksilver; the first of them has to reach the promises."""
        return tuple(
            sorted((n for n in self.runners(jobs) if COMPETITORS[n].quicksilver), key=lambda n: n != self.candidate)
        )

    def settings(self) -> dict[str, Any]:
        """Return the plan as a result has it, without the machine's folders."""
        data = self.model_dump(exclude={"about", "quick"})
        for entry, jobs in zip(data["workloads"], self.workloads, strict=True):
            if jobs.trace:
                entry["trace"]["file"] = jobs.name
        return data

    def mix(self, jobs: PlannedJobs) -> Mix:
        """Return what is run for a workload."""
        mix = jobs.trace.mix() if jobs.trace else mix_named(jobs.name)
        cluster = self.cluster.model_dump(exclude_none=True) | jobs.cluster.model_dump(exclude_none=True)
        mix = resized(mix, **cluster)
        return halved(mix) if self.halved else mix

    def seeds_of(self, jobs: PlannedJobs) -> int:
        """Return how often a workload is repeated."""
        return jobs.seeds or self.seeds

    def steps(self, seed: int, best: Best) -> list[Step]:
        """Return the runs of a seed, which have the same jobs under each competitor."""
        return [
            self.step(jobs, competitor, seed)
            for jobs in self.workloads
            if seed <= self.seeds_of(jobs)
            for competitor in self._order(jobs, seed, best)
            if jobs.name != GUARANTEES.name or competitor == TUNED or competitor in self.candidates(jobs)
        ]

    def _order(self, jobs: PlannedJobs, seed: int, best: Best) -> Iterator[str]:
        names = self.listed(jobs)
        turn = (seed - 1) % len(names)
        for name in names[turn:] + names[:turn]:
            if seed > 1 and name in jobs.once:
                continue
            if name != BEST:
                yield name
            elif seed == 1:
                yield from OWN_OPPORTUNISTIC
            elif (rival := best(jobs.name)) is not None:
                yield rival

    def bounds(self, jobs: PlannedJobs) -> list[Step]:
        """Return the bounds of a workload for all seeds; none where guarantees are looked at, not latencies."""
        seeds = () if jobs.name == GUARANTEES.name else range(1, self.seeds_of(jobs) + 1)
        return [self.step(jobs, name, seed) for seed in seeds for name in BOUNDS]

    def step(self, jobs: PlannedJobs, competitor: str, seed: int) -> Step:
        """Return one run."""
        return Step(jobs.name, competitor, seed, partial(self.mix, jobs), self.hadoop)

    def expected_s(self) -> float:
        """Return about how long the runs take one after the other. Raises QuicksilverError of a trace."""
        seeds = range(1, max(map(self.seeds_of, self.workloads)) + 1)
        runs = Counter(step.workload for seed in seeds for step in self.steps(seed, lambda _: TUNED))
        return sum(runs[jobs.name] * self.step(jobs, TUNED, 1).expected_s() for jobs in self.workloads)


def plans() -> list[str]:
    """Return the names of the plans that come along."""
    return sorted(path.stem for path in PLANS.glob("*.yaml"))


def load(name: str, quick: bool = False) -> ExperimentPlan:
    """Return a plan by its name or file. Raises QuicksilverError with each mistake: file, line, key, remedy."""
    path = PLANS / f"{name}.yaml" if name in plans() else Path(name)
    if not path.exists() and path.suffix not in (".yaml", ".yml"):
        raise QuicksilverError(f"no plan is named {name}", remedy=f"name a file, or one of {', '.join(plans())}")
    document = parse_text(read_text(path), str(path))
    data: Mapping[str, Any] = document.data if isinstance(document.data, dict) else {}
    laid = data.get("quick") if isinstance(data.get("quick"), dict) else None
    plan, mistakes = _checked(document.data)
    if laid and plan:
        first_look, more = _checked({**data, **laid, "quick": {}})
        mistakes = [Mistake(("quick", *mistake.path), mistake.text, mistake.on_key) for mistake in more]
        plan = first_look if quick else plan
    if mistakes or plan is None:
        raise _error(document, mistakes)
    return plan


def _checked(data: Any) -> tuple[ExperimentPlan | None, list[Mistake]]:
    """Return the plan, or None and the mistakes; a workload may be the name of a mix alone."""
    workloads = data.get("workloads") if isinstance(data, dict) else None
    if isinstance(workloads, list):
        data = {**data, "workloads": [{"mix": jobs} if isinstance(jobs, str) else jobs for jobs in workloads]}
    return validate(ExperimentPlan, data)


def _error(document: Document, mistakes: Sequence[Mistake]) -> QuicksilverError:
    own = [DescriptionMistake(m.path, m.text, _REMEDY, on_key=m.on_key) for m in mistakes]
    return document.error([*document.mistakes, *own])


def changed(
    plan: ExperimentPlan,
    workloads: Sequence[str] = (),
    competitors: Sequence[str] = (),
    seeds: int | None = None,
    trace: Path | None = None,
    hadoop: str | None = None,
) -> ExperimentPlan:
    """Return a plan with these workloads and competitors alone, other seeds and version, and the file of its traces.

    A mix that the plan does not have is added. Workloads with competitors of their own keep those that are named; all
    others run under those that are named, whether the plan has them or not. Raises QuicksilverError.
    """
    data = plan.model_dump()
    if workloads:
        own = [entry for entry, jobs in zip(data["workloads"], plan.workloads, strict=True) if jobs.name in workloads]
        names = {jobs.name for jobs in plan.workloads}
        data["workloads"] = [*own, *({"mix": name} for name in workloads if name not in names)]
    if competitors:
        data["competitors"] = competitors
        for entry in data["workloads"]:
            for key in ("competitors", "once"):
                if entry.get(key):
                    entry[key] = [name for name in entry[key] if name in competitors]
        data["workloads"] = [entry for entry in data["workloads"] if entry.get("competitors") != [] or entry["once"]]
    for entry in data["workloads"]:
        if seeds is not None:
            data["seeds"], entry["seeds"] = seeds, None
        if trace is not None and entry.get("trace"):
            entry["trace"]["file"] = str(trace)
    if hadoop is not None:
        data["hadoop"] = hadoop
    result, mistakes = validate(ExperimentPlan, data)
    if result is None:
        raise QuicksilverError("; ".join(map(str, mistakes)), place="the plan with these options", remedy=_REMEDY)
    return result
