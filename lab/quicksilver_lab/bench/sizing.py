"""The tables of docs/sizing.md about the proxy, by results that are kept, and the model that they calibrate.

Of the kept results `task-*.json.xz` (`quicksilver bench keep`) the newest of each size, load, number of workers and
kind of grants counts. `python -m quicksilver_lab.bench.sizing docs/sizing.md` writes the tables anew; a test compares.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
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
MASTERS: Final = (200, 2_000)
"""Each with a heartbeat a second."""
_BEYOND: Final = 1.1
"""How many times as large as the largest run a load is that is beyond what was measured."""
_DASH: Final = "-"
_MODEL: Final = "model"
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


def load_of(nodes: int, tasks: float, masters: int, own_grants: bool = False) -> ProxyLoad:
    """Return the load of a row."""
    return ProxyLoad(nodes, masters, tasks, masters, reports_per_s(nodes, tasks), own_grants=own_grants)


def _needs(model: SizingModel) -> Iterator[str]:
    yield "| nodes | masters | tasks/s | workers | cores | memory, MB | network, MB/s | by |"
    yield "|---:|---:|---:|---:|---:|---:|---:|---|"
    for nodes in NODES:
        for masters in MASTERS:
            for tasks in TASKS:
                loads = [load_of(nodes, tasks, masters, own_grants) for own_grants in (False, True)]
                needs = [model.needs(load) for load in loads]
                cells = (
                    _pair(*(_DASH if each.workers is None else str(each.workers) for each in needs)),
                    _pair(*(_decimals(each.cores) for each in needs)),
                    _pair(*(_whole(each.memory_mb) for each in needs)),
                    _pair(*(_decimals(each.bytes_per_s / 1e6) for each in needs)),
                    _basis(model, loads, needs),
                )
                yield f"| {nodes:,} | {masters:,} | {tasks:,} | {' | '.join(cells)} |"


def _pair(plain: str, own_grants: str) -> str:
    """Return a cell: what holds where the ResourceManager grants, and where the proxy does."""
    return plain if plain == own_grants else f"{plain} / {own_grants}"


def _basis(model: SizingModel, loads: Sequence[ProxyLoad], needs: Sequence[Needs]) -> str:
    """Return where the figures of a row come from: measurements, or the model and how far beyond them it is there."""
    kinds = [_kind(model, load, each) for load, each in zip(loads, needs, strict=True)]
    if _MODEL not in kinds:
        return _pair(*kinds)
    ratios = {
        "nodes": loads[0].nodes / model.most.nodes,
        "masters": loads[0].masters / model.most.masters,
        "tasks": loads[0].tasks / model.most.tasks,
        "workers": max((each.workers or 0) for each in needs) / model.most.workers,
    }
    beyond = ", ".join(f"{ratio:.0f} x {name}" for name, ratio in ratios.items() if ratio > _BEYOND)
    limits = [_most(model, load) for load, each in zip(loads, needs, strict=True) if each.workers is None]
    limit = f"at most {_rounded(min(limits)):,} tasks/s" if limits else ""
    return f"{_pair(*kinds)}: {'; '.join(part for part in (limit, beyond) if part)}".removesuffix(": ")


def _kind(model: SizingModel, load: ProxyLoad, needs: Needs) -> str:
    if math.isnan(model.cpu.of(load)):
        return "not measured"
    return "measured" if needs.workers is not None and model.covers(load, needs.workers) else _MODEL


def _most(model: SizingModel, load: ProxyLoad) -> float:
    """Return how many tasks a second any number of workers carries."""
    return model.most_tasks(lambda tasks: load_of(load.nodes, tasks, load.masters, load.own_grants))


def _rounded(amount: float) -> int:
    """Return a number with two digits that count."""
    return int(float(f"{amount:.1e}"))


def _amounts(model: SizingModel) -> Iterator[str]:
    yield "| for each | CPU | | for each | memory |"
    yield "|---|---:|---|---|---:|"
    of_cpu = [f"{name} | {_cpu(amount)}" for name, amount in _terms(model.cpu.one_process)]
    of_cpu.append(f"further worker | {model.cpu.further_ratio:.0%} of reports and heartbeats with asks")
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
        f"Calibrated on the {len(runs)} measurements above ({'; '.join(machines)}; commit {', '.join(commits)}), "
        f"by {len(model.cpu.one_process.terms) + 1} amounts of CPU time and {len(model.memory.terms)} of memory. "
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
