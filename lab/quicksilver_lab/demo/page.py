"""The demo as a page: who had the slots of the nodes, what became of the short jobs, and how it was run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quicksilver.report.model import Axis, Block, Page, Prose, ReportSection, ReportSpan, ReportTable, Spans, Value
from quicksilver_lab.bench.page import plain as plain_page
from quicksilver_lab.bench.results import commit
from quicksilver_lab.demo.figures import DemoFigures, figures, goals
from quicksilver_lab.demo.jobs import LONG, SHORT
from quicksilver_lab.demo.timeline import PHASES, CoreUse, WayRun, rows_of

KINDS: Final = ("tasks of the long job", "tasks of short jobs", "masters of short jobs", "master of the long job")
STOPPED: Final = "stopped tasks"
_PLAIN: Final = (
    "Plain YARN: Hadoop's own daemons and its Capacity Scheduler, which counts memory and vcores. The long job is in "
    "the queue `batch` (40 %), the short ones are in `default` (60 %). Either queue may take the whole cluster, so the "
    "queue of the short jobs gets each slot that becomes free before the long job does. A heartbeat of a node may "
    "bring up to 100 containers. Preemption is off, as in Hadoop's default: it would kill tasks of the long job."
)
_THROUGH: Final = (
    "With quicksilver: the same configuration with the overlays of hadoop-conf/ as `quicksilver install` merges them, "
    "those of `--with sharing` among them, and `policies: {}`, which is the preset `default`. A NodeManager here is "
    "configured with 8 vcores (5 would do), while the sidecar lets 4 containers work at a time (`sidecar.vcores: 4`)."
)
_TASKS: Final = (
    "A task works in steps of a quarter of a second, in which it sleeps: so a machine of two cores can show a cluster "
    "of twelve. A task that gives way is stopped with its processes (`sidecar.resizer: signals`) and makes no progress."
)
_WHY: Final = (
    "A short job needs a slot for its master, then slots for its tasks. On plain YARN each of them waits until a task "
    "of the long job ends. With quicksilver the tasks of the long job are queueable, so the ResourceManager sees room "
    "and allocates the master at the next heartbeat of a node. The sidecar stops one task of the long job for the "
    "master. The short job's tasks take places beyond the cores in the same way. Stopped tasks go on afterwards."
)


def page(plain: WayRun, through: WayRun, nodes: Sequence[str], slots: int, machine: Mapping[str, Any]) -> Page:
    """Return the page of both runs; slots: containers that may work at a time at a node; machine: as at the start."""
    facts = plain_page.facts({"machine": machine, "commit": commit()})
    tasks = f"{LONG.tasks} tasks of {LONG.task_s:g} s"
    jobs = f"one long job of {tasks}; {len(SHORT)} short jobs of {SHORT[0].tasks} tasks of {SHORT[0].task_s:g} s"
    most_s = max(plain.end_s, through.end_s)
    ways = [plain, through]
    return Page(
        "Short jobs beside a long one",
        [*facts, ("cluster", f"{len(nodes)} nodes, {slots} vcores each"), ("jobs", jobs)],
        [
            ReportSection("Result", [_table(figures(plain), figures(through)), Prose(_WHY)]),
            ReportSection("Who had the slots", [_slots(way, nodes, slots, most_s) for way in ways]),
            ReportSection("Where the time of the short jobs went", [_phases(way, most_s) for way in ways]),
            ReportSection("How it was run", [Prose(text) for text in (_PLAIN, _THROUGH, _TASKS)]),
        ],
    )


def rows(plain: DemoFigures, through: DemoFigures) -> list[list[Value]]:
    """Return rows of what, plain YARN, quicksilver, ratio, goal; for the page and for the terminal."""
    goal = goals(plain, through)

    def aim(name: str) -> str:
        return f"at most {goal[name]['goal']:g}: {'met' if goal[name]['met'] else 'not met'}"

    def row(label: str, base: float, value: float, aimed: str = "") -> list[Value]:
        return [label, f"{base:.1f} s", f"{value:.1f} s", f"{value / base:.2f}" if base else "", aimed]

    return [
        row("short jobs, p50", plain.short_p50_s, through.short_p50_s, aim("short_p50_ratio")),
        row("short jobs, p95", plain.short_p95_s, through.short_p95_s),
        *(row(f"  {name}, mean", plain.short_phases_s[name], through.short_phases_s[name]) for name in PHASES),
        row("long job", plain.long_s, through.long_s, aim("long_ratio")),
        ["tasks killed", str(plain.kills), str(through.kills), "", ""],
        ["task-seconds stopped", f"{plain.stopped_s:.0f}", f"{through.stopped_s:.0f}", "", ""],
    ]


def _table(plain: DemoFigures, through: DemoFigures) -> ReportTable:
    return ReportTable(["", "plain YARN", "quicksilver", "ratio", "goal"], rows(plain, through))


def _slots(run: WayRun, nodes: Sequence[str], slots: int, most_s: float) -> Block:
    names, row_of = rows_of(run.uses, nodes, slots)
    kinds: dict[str, list[ReportSpan]] = {name: [] for name in (*KINDS, STOPPED)}
    for use in run.uses:
        kinds[_kind(use)].append(ReportSpan(row_of[use.container], use.begin_s, use.end_s))
        kinds[STOPPED] += [ReportSpan(row_of[use.container], begin, end) for begin, end in use.stopped]
    axis = Axis("seconds since the long job was submitted", most=most_s)
    return Spans(run.way, axis, names, list(kinds.items()))


def _kind(use: CoreUse) -> str:
    if use.master:
        return KINDS[3] if use.job == LONG.name else KINDS[2]
    return KINDS[0] if use.job == LONG.name else KINDS[1]


def _phases(run: WayRun, most_s: float) -> Block:
    spans: dict[str, list[ReportSpan]] = {name: [] for name in PHASES}
    short = [job for job in run.jobs if job.name != LONG.name]
    for row, job in enumerate(short):
        at_s = job.submitted_s
        for name, phase_s in zip(PHASES, job.phases_s, strict=True):
            spans[name].append(ReportSpan(row, at_s, at_s + phase_s))
            at_s += phase_s
    axis = Axis("seconds since the long job was submitted", most=most_s)
    return Spans(run.way, axis, [job.name for job in short], list(spans.items()))
