"""A study as a page: figures with their confidence, completions by class, utilisation, who waited behind whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

from quicksilver.common.settings.settings_yaml import settings_yaml
from quicksilver.report.model import (
    Axis,
    Bars,
    Block,
    Code,
    Lines,
    Page,
    Prose,
    ReportEstimate,
    ReportSection,
    ReportTable,
    Series,
    Value,
)
from quicksilver.simulator.count_names import meaning
from quicksilver.simulator.figures import ALL, GRID, sampled
from quicksilver.simulator.findings import findings
from quicksilver.simulator.results import better, by_label, compared, estimate, metric
from quicksilver.simulator.run import Row
from quicksilver.simulator.stock import base_first, is_stock, rank
from quicksilver.simulator.sweep import POLICIES

_MOST_LINES: Final = 16
_POINTS: Final = 200
_MAIN: Final = ("mean", "p50", "p95", "p99", "wait")
_WHOLE: Final = (("utilisation", "utilisation"), ("throughput", "tasks/s"), ("makespan", "makespan, s"))
_VERDICTS: Final = {True: "better", False: "worse", None: "undecided"}


def page(facts: Sequence[tuple[str, str]], rows: Sequence[Row], title: str = "Simulation") -> Page:
    """Return the page of a study. facts: what the figures depend on."""
    variants = base_first(by_label(rows))
    sections = [
        _in_short(rows),
        _figures(variants),
        _against(variants),
        *_sweeps(variants),
        _cdfs(variants),
        _busy(variants),
    ]
    sections += [_by_queue(variants), _lost(variants), _behind(variants), _counts(variants)]
    sections += [_to_write(variants), _settings(variants)]
    return Page(title, facts, [section for section in sections if section.blocks])


def _in_short(rows: Sequence[Row]) -> ReportSection:
    return ReportSection("In short", [Prose(sentence) for sentence in findings(rows)])


def classes_of(variants: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return `all`, and the classes where there are several."""
    names = sorted({name for rows in variants.values() for row in rows for name in row.figures.completion_s} - {ALL})
    return [ALL, *names] if len(names) > 1 else [ALL]


def _figures(variants: Mapping[str, Sequence[Row]]) -> ReportSection:
    blocks: list[Block] = [
        Prose(
            "Job completion, from arrival to the end of the last task, and the mean wait of a task, in seconds; means "
            "over the seeds with 95 % confidence intervals."
        )
    ]
    for klass in classes_of(variants):
        table = [
            [label, metric(rows, f"jobs_{klass}"), *(metric(rows, f"{kind}_{klass}") for kind in _MAIN)]
            for label, rows in variants.items()
        ]
        blocks.append(ReportTable(["system", "jobs", *_MAIN], table, f"{klass} jobs"))
    whole = [[label, len(rows), *(metric(rows, name) for name, _ in _WHOLE)] for label, rows in variants.items()]
    blocks.append(ReportTable(["system", "seeds", *(shown for _, shown in _WHOLE)], whole, "cluster"))
    return ReportSection("Figures", blocks)


def _against(variants: Mapping[str, Sequence[Row]]) -> ReportSection:
    base, *others = variants
    if not others:
        return ReportSection("", [])
    names = [f"{kind}_{klass}" for klass in classes_of(variants) for kind in ("mean", "p50", "p95", "p99")]
    table: list[list[Value]] = []
    for label in others:
        ratios = [compared(variants[base], variants[label], name) for name in names]
        table.append([label, *ratios])
    verdicts: list[list[Value]] = [
        [label, *(_VERDICTS[better(name, compared(variants[base], variants[label], name))] for name in names)]
        for label in others
    ]
    which = rank(base, variants)
    caption = (
        f"Ratios to `{base}`{f', {which} by the mean' if which else ''}, paired by seed: below 1 is faster. Where the "
        "interval has 1 in it, or there is one seed, the comparison is undecided."
    )
    columns = ["system", *(name.replace("_", " ") for name in names)]
    blocks: list[Block] = [Prose(caption), ReportTable(columns, table, "ratios")]
    blocks += [ReportTable(columns, verdicts, "verdicts")] if len({row.seed for row in variants[base]}) > 1 else []
    if len(others) <= 2 * _MOST_LINES:
        bars = [(name.replace("_", " "), _column(table, at + 1)) for at, name in enumerate(names) if "p95" in name]
        blocks.append(Bars(f"p95 of job completion, ratio to {base}", Axis("ratio"), list(others), bars, 1.0))
    return ReportSection(f"Against {base}", blocks)


def _column(table: Sequence[Sequence[Value]], at: int) -> list[float | ReportEstimate | None]:
    return [cell if isinstance(cell := row[at], (float, int, ReportEstimate)) else None for row in table]


def _sweeps(variants: Mapping[str, Sequence[Row]]) -> list[ReportSection]:
    """Return a section for each setting that is swept by numbers: its figures over it, all else equal."""
    names = dict.fromkeys(name for rows in variants.values() for name in rows[0].varied)
    return [ReportSection(f"Over {name}", blocks) for name in names if (blocks := _over(name, variants))]


def _over(name: str, variants: Mapping[str, Sequence[Row]]) -> list[Block]:
    lines: dict[str, list[tuple[float, Sequence[Row]]]] = {}
    for rows in variants.values():
        value = rows[0].varied.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            others = " ".join(f"{key}={setting}" for key, setting in rows[0].varied.items() if key != name)
            lines.setdefault(f"{rows[0].system} {others}".strip(), []).append((float(value), rows))
    lines = {label: sorted(points, key=lambda point: point[0]) for label, points in lines.items() if len(points) > 1}
    if not lines or len(lines) > _MOST_LINES:
        return []
    blocks: list[Block] = []
    for klass in classes_of(variants):
        for kind in ("mean", "p95"):
            series = [_curve(label, points, f"{kind}_{klass}") for label, points in lines.items()]
            drawn = [curve for curve in series if curve is not None]
            if drawn:
                title = f"{kind} of job completion, {klass} jobs"
                blocks.append(Lines(title, Axis(name), Axis("s"), drawn, marks=True))
    return blocks


def _curve(label: str, points: Sequence[tuple[float, Sequence[Row]]], name: str) -> Series | None:
    cells = [(x, cell) for x, rows in points if (cell := metric(rows, name)) is not None]
    spread = [(x, cell if isinstance(cell, ReportEstimate) else ReportEstimate(cell, cell, cell)) for x, cell in cells]
    if not spread:
        return None
    middle, low, high = ([getattr(cell, which) for _, cell in spread] for which in ("value", "low", "high"))
    return Series(label, [x for x, _ in spread], middle, low, high)


def _cdfs(variants: Mapping[str, Sequence[Row]]) -> ReportSection:
    blocks: list[Block] = []
    for klass in classes_of(variants):
        series = [cdf for label, rows in _few(variants) if (cdf := _cdf(label, rows, klass)) is not None]
        if series:
            log = min(min(curve.x) for curve in series) > 0
            share = Axis("share of the jobs", most=1.0)
            blocks.append(Lines(f"{klass} jobs", Axis("job completion, s", log=log), share, series))
    return ReportSection("Job completion", [*_left_out(variants), *blocks] if blocks else [])


def _few(variants: Mapping[str, Sequence[Row]]) -> list[tuple[str, Sequence[Row]]]:
    return list(variants.items())[:_MOST_LINES]


def _left_out(variants: Mapping[str, Sequence[Row]]) -> list[Block]:
    more = len(variants) - _MOST_LINES
    return [Prose(f"The first {_MOST_LINES} are drawn, {more} more are in the tables.")] if more > 0 else []


def _cdf(label: str, rows: Sequence[Row], klass: str) -> Series | None:
    """Return the share of the jobs that take no longer, each percentile the mean over the seeds."""
    runs = [row.figures.completion_s[klass] for row in rows if klass in row.figures.completion_s]
    if not runs:
        return None
    return Series(label, [fmean(column) for column in zip(*runs, strict=True)], [q / 100 for q in GRID])


def _busy(variants: Mapping[str, Sequence[Row]]) -> ReportSection:
    drawn = [
        (label, runs) for label, rows in _few(variants) if (runs := [r.figures.busy for r in rows if r.figures.busy])
    ]
    if not drawn:
        return ReportSection("", [])
    begins_s = min(run[0][0] for _, runs in drawn for run in runs)
    ends_s = max(run[-1][0] for _, runs in drawn for run in runs)
    times_s = [begins_s + (ends_s - begins_s) * at / _POINTS for at in range(_POINTS + 1)]
    series = []
    for label, runs in drawn:
        columns = list(zip(*(sampled(run, times_s) for run in runs), strict=True))
        low, high = ([pick(column) for column in columns] if len(runs) > 1 else [] for pick in (min, max))
        series.append(Series(label, times_s, [fmean(column) for column in columns], low, high))
    caption = Prose("Share of the slots that is busy; mean over the seeds, in the shade the lowest and the highest.")
    time, share = Axis("time, s"), Axis("share of the slots", most=1.0)
    return ReportSection(
        "Utilisation", [caption, *_left_out(variants), Lines("utilisation", time, share, series, step=True)]
    )


def _by_queue(variants: Mapping[str, Sequence[Row]]) -> ReportSection:
    """Return the figures by YARN queue; those of the first run's queues, which have the most jobs."""
    names = list(dict.fromkeys(name for rows in variants.values() for row in rows for name in row.figures.queues))
    if not names:
        return ReportSection("", [])
    kinds = ("jobs", "mean", "p50", "p95", "wait")
    table: list[list[Value]] = [
        [name, label, *(_of_queue(rows, name, kind) for kind in kinds)]
        for name in names
        for label, rows in variants.items()
    ]
    means = [
        (
            label,
            [
                cell if isinstance(cell := _of_queue(rows, name, "mean"), (float, ReportEstimate)) else None
                for name in names
            ],
        )
        for label, rows in _few(variants)
    ]
    caption = Prose(
        "Job completion and the mean wait of a task by YARN queue, in seconds; queues with the most jobs first."
    )
    bars = Bars("mean job completion by queue", Axis("seconds"), names, means)
    return ReportSection("By queue", [caption, ReportTable(["queue", "system", *kinds], table), bars])


def _of_queue(rows: Sequence[Row], queue: str, kind: str) -> float | ReportEstimate | None:
    values = [row.figures.queues[queue][kind] for row in rows if queue in row.figures.queues]
    return estimate(values) if values and len(values) == len(rows) else None


def _lost(variants: Mapping[str, Sequence[Row]]) -> ReportSection:
    """Return how many containers each system killed and what of their work was lost, where one counts kills."""
    counting = {label: rows for label, rows in variants.items() if all("kills" in row.figures.counts for row in rows)}
    if not counting:
        return ReportSection("", [])
    table: list[list[Value]] = [
        [label, _own(rows, "counts", "kills"), _per_1000(rows), _own(rows, "extra", "lost_s")]
        for label, rows in counting.items()
    ]
    silent = [label for label in variants if label not in counting]
    caption = "Containers that were killed, and the seconds that they had run for nothing"
    note = f"; not counted by {', '.join(silent)}" if silent else ""
    columns = ["system", "kills", "kills per 1,000 tasks", "work lost, s"]
    return ReportSection("Kills and lost work", [Prose(f"{caption}{note}."), ReportTable(columns, table)])


def _per_1000(rows: Sequence[Row]) -> float | ReportEstimate | None:
    counts = [row.figures.counts for row in rows]
    return (
        estimate([1000 * each["kills"] / each["tasks"] for each in counts])
        if all(c.get("tasks") for c in counts)
        else None
    )


def _to_write(variants: Mapping[str, Sequence[Row]]) -> ReportSection:
    """Return the section `policies` of each variant that runs the production policies."""
    blocks = [
        Code(settings_yaml({POLICIES: section}), f"To run `{label}`")
        for label, rows in _few(variants)
        if isinstance(section := rows[0].settings.get(POLICIES), Mapping) and not is_stock(rows[0])
    ]
    return ReportSection("What to write into quicksilver.yaml", blocks)


def _behind(variants: Mapping[str, Sequence[Row]]) -> ReportSection:
    pairs = sorted({pair for rows in variants.values() for row in rows for pair in row.figures.behind})
    if not pairs:
        return ReportSection("", [])
    silent = [label for label, rows in variants.items() if not any(row.figures.behind for row in rows)]
    cells: list[list[Value]] = []
    for label, rows in variants.items():
        if label not in silent:
            cells.append([label, *(_count(rows, pair) for pair in pairs)])
    note = f" Not counted by {', '.join(silent)}." if silent else ""
    bars = [(pair, _column(cells, at + 1)) for at, pair in enumerate(pairs)]
    return ReportSection(
        "Who waited behind whom",
        [
            Prose(
                f"Tasks or probes of one class that met a task of another at their node, as the systems count.{note}"
            ),
            ReportTable(["system", *pairs], cells, "tasks"),
            Bars("tasks that waited", Axis("tasks"), [str(row[0]) for row in cells], bars),
        ],
    )


def _count(rows: Sequence[Row], pair: str) -> float | ReportEstimate | None:
    values = [float(row.figures.behind[pair]) for row in rows if pair in row.figures.behind]
    return estimate(values) if len(values) == len(rows) else None


def _counts(variants: Mapping[str, Sequence[Row]]) -> ReportSection:
    """Return what the systems counted, each count with what it means; "–" where a system does not count it."""
    rows: list[list[Value]] = [
        [f"`{name}`", *(_own(same, which, name) for same in variants.values()), meaning(name)]
        for which in ("counts", "extra")
        for name in dict.fromkeys(
            name for same in variants.values() for row in same for name in getattr(row.figures, which)
        )
    ]
    return ReportSection("Counts", [ReportTable(["count", *variants, "what it is"], rows)] if rows else [])


def _own(rows: Sequence[Row], which: str, name: str) -> float | ReportEstimate | None:
    values = [getattr(row.figures, which).get(name) for row in rows]
    return None if None in values else estimate(values)


def _settings(variants: Mapping[str, Sequence[Row]]) -> ReportSection:
    """Return a table of the systems' settings, and those that have settings of their own as YAML."""
    settings = {label: rows[0].settings for label, rows in variants.items()}
    names = dict.fromkeys(name for own in settings.values() for name, value in own.items() if _is_plain(value))
    rows: list[list[Value]] = [
        [f"`{name}`", *(_setting(own[name]) if name in own else None for own in settings.values())] for name in names
    ]
    blocks: list[Block] = [ReportTable(["setting", *settings], rows)] if rows else []
    for label, own in settings.items():
        nested = {name: value for name, value in own.items() if not _is_plain(value)}
        blocks += [Code(settings_yaml(nested), f"Of `{label}`")] if nested else []
    return ReportSection("Settings", blocks)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float))


def _setting(value: object) -> Value:
    return value if isinstance(value, (str, int, float)) else "not set"
