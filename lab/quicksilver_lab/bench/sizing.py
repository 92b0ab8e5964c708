"""The tables of docs/sizing.md about the proxy, by results that are kept, and the model that they calibrate.

Of the kept results `task-*.json.xz` (`quicksilver bench keep`) the newest of each size, load, number of workers and
kind of grants counts. `python -m quicksilver_lab.bench.sizing docs/sizing.md` writes the tables anew; a test compares.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from quicksilver.manual.made_parts import with_part
from quicksilver_lab.bench.keep import FIGURES
from quicksilver_lab.bench.sizing_model import (
    Needs,
    ProxyLoad,
    SizingModel,
    SizingRun,
    TermSum,
    kept_runs,
    reports_per_s,
)

COMMAND: Final = "python -m quicksilver_lab.bench.sizing docs/sizing.md"
_BEGIN: Final = f"<!-- sizing: made by `{COMMAND}` -->\n"
_END: Final = "<!-- end of sizing -->\n"
NODES: Final = (1_000, 4_000, 10_000)
TASKS: Final = (1_000, 5_000, 20_000)
MASTERS: Final = 2_000
"""Each with a heartbeat a second."""
_DASH: Final = "-"
_NOTHING: Final = "No result is kept yet."


def rows(model: SizingModel) -> Iterator[str]:
    """Yield the lines of the part: what a load needs, what it consists of, and how well that fits the measurements."""
    yield from _needs(model)
    yield ""
    yield from _amounts(model)
    yield ""
    yield from _measurements(model)
    yield ""
    yield from _calibration(model)


def load_of(nodes: int, tasks: float, own_grants: bool) -> ProxyLoad:
    """Return the load of a row."""
    return ProxyLoad(nodes, MASTERS, tasks, MASTERS, reports_per_s(nodes, tasks), own_grants=own_grants)


def _needs(model: SizingModel) -> Iterator[str]:
    yield "| nodes | tasks/s | granted by | worker processes | cores | memory, MB | network, MB/s | by |"
    yield "|---:|---:|---|---:|---:|---:|---:|---|"
    for nodes in NODES:
        for tasks in TASKS:
            for own_grants in (False, True):
                row = load_of(nodes, tasks, own_grants)
                needs = model.needs(row)
                by = "the proxy" if own_grants else "the ResourceManager"
                figures = (
                    _DASH if needs.workers is None else needs.workers,
                    _decimals(needs.cores),
                    _whole(needs.memory_mb),
                    _decimals(needs.bytes_per_s / 1e6),
                )
                cells = " | ".join(map(str, figures))
                yield f"| {nodes:,} | {tasks:,} | {by} | {cells} | {_basis(model, row, needs)} |"


def _basis(model: SizingModel, row: ProxyLoad, needs: Needs) -> str:
    """Return where a row comes from: `measured`, or the model with how far it is beyond what was measured."""
    if math.isnan(model.cpu.of(row)):
        return "not measured"
    if needs.workers is None:
        most = model.most_tasks(lambda tasks: load_of(row.nodes, tasks, row.own_grants))
        return f"model: {_rounded(most):,} tasks/s at most, with any number of workers"
    if model.covers(row, needs.workers):
        return "measured"
    ratios = {
        "nodes": row.nodes / model.most.nodes,
        "tasks": row.tasks / model.most.tasks,
        "workers": needs.workers / model.most.workers,
    }
    beyond = ", ".join(f"{ratio:.1f} x {name}" for name, ratio in ratios.items() if ratio > 1)
    return f"model: {beyond}" if beyond else "model"


def _rounded(amount: float) -> int:
    """Return a number with two digits that count."""
    return int(float(f"{amount:.1e}"))


def _amounts(model: SizingModel) -> Iterator[str]:
    yield "| for each | CPU | | for each | memory |"
    yield "|---|---:|---|---|---:|"
    of_cpu = [f"{name} | {_cpu(amount)}" for name, amount in _terms(model.cpu)]
    of_memory = [f"{name} | {_memory(amount)}" for name, amount in _terms(model.memory)]
    of_memory += [f"front and supervisor of several workers | {_memory(model.beside_mb)}"] if model.beside_mb else []
    of_memory += [" | "] * (len(of_cpu) - len(of_memory))
    for cpu, memory in zip(of_cpu, of_memory, strict=True):
        yield f"| {cpu} | | {memory} |"


def _terms(model: TermSum) -> Iterator[tuple[str, float]]:
    for term, amount in zip(model.terms, model.amounts, strict=True):
        yield term.each, float(amount)


def _cpu(amount: float) -> str:
    """Return seconds of CPU time in a second, or of a message."""
    return f"{amount * 1e6:,.0f} us"


def _memory(amount: float) -> str:
    return f"{amount:,.0f} MB" if amount >= 1 else f"{amount * 1e3:,.0f} KB"


def _measurements(model: SizingModel) -> Iterator[str]:
    yield "| measured: nodes | masters | tasks/s | reports/s | granted by | workers | cores, model | MB, model |"
    yield "|---:|---:|---:|---:|---|---:|---:|---:|"
    for run in sorted(model.runs, key=_order):
        row = run.load
        cells = (
            f"{row.nodes:,}",
            f"{row.masters:,}",
            f"{row.tasks:,.0f}",
            f"{row.reports:,.0f}",
            "the proxy" if row.own_grants else "the ResourceManager",
            str(row.workers),
            f"{run.cores:.3f}, {model.cpu.of(row):.3f}",
            f"{run.memory_mb:,.0f}, {model.memory.of(row):,.0f}",
        )
        yield f"| {' | '.join(cells)} |"


def _order(run: SizingRun) -> tuple[float, ...]:
    row = run.load
    return row.own_grants, row.workers, row.nodes, row.masters, row.tasks


def _calibration(model: SizingModel) -> Iterator[str]:
    runs = model.runs
    machines, commits = (sorted({getattr(run, name) for run in runs}) for name in ("machine", "commit"))
    worst = {"CPU": model.cpu.worst_ratio(), "memory": model.memory.worst_ratio()}
    worst["network"] = max(each.worst_ratio() for each in model.bytes.values())
    reports = max(abs(reports_per_s(run.load.nodes, run.load.tasks) / run.load.reports - 1) for run in runs)
    skew = max(run.skew for run in runs)
    yield (
        f"Calibrated on the {len(runs)} measurements above ({'; '.join(machines)}; commit {', '.join(commits)}). "
        f"Largest error at one of them: {', '.join(f'{name} {ratio:.0%}' for name, ratio in worst.items())}; "
        f"reports, reckoned by how often tasks start and end, {reports:.0%}. "
        f"The busiest worker had up to {skew:.2f} times the mean."
    )


def _decimals(amount: float) -> str:
    return _DASH if math.isnan(amount) else f"{amount:,.1f}"


def _whole(amount: float) -> str:
    return _DASH if math.isnan(amount) else f"{amount:,.0f}"


def with_tables(page: str, folder: Path) -> str:
    """Return a page with the tables of the results in `folder`. Raises ValueError when it has no place for them."""
    runs = kept_runs(folder)
    lines = rows(SizingModel(runs)) if runs else [_NOTHING]
    return with_part(page, _BEGIN, "".join(f"{line}\n" for line in lines), _END)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        page = Path(argument)
        page.write_text(with_tables(page.read_text(), page.parents[1] / FIGURES))
