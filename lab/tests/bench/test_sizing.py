"""docs/sizing.md: the model recovers what made-up runs are made of, and the page has what kept results come to."""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from quicksilver_lab.bench.keep import FIGURES
from quicksilver_lab.bench.sizing import COMMAND, load_of, rows, with_tables
from quicksilver_lab.bench.sizing_model import (
    CPU,
    FULL_RATIO,
    MEMORY,
    SHARED,
    ProxyLoad,
    SizingModel,
    amounts_of,
    kept_runs,
    reports_per_s,
    runs_of,
)
from tests.paths import ROOT

CPU_S: Final = (0.01, 2e-4, 1e-4, 1e-3, 7e-4, 6e-4, 2e-5)
"""What each term of CPU takes in the made-up results."""
FURTHER: Final = 0.4
MEMORY_MB: Final = (100.0, 60.0, 0.05, 0.02)
BESIDE: Final = {"supervisor": 30.0, "front": 40.0}
LOADS: Final = [(64, 40, 60), (256, 40, 60), (1000, 40, 60), (1000, 40, 1), (64, 1000, 60), (256, 400, 200)]


def result(size: tuple[int, int, float], workers: int = 1, own_grants: bool = False, **more: Any) -> dict[str, Any]:
    """Return a result as `bench task` writes it, of a proxy that takes CPU_S and MEMORY_MB."""
    nodes, masters, rate = size
    figures = _figures(ProxyLoad(nodes, masters, rate, masters, reports_per_s(nodes, rate), workers, own_grants))
    settings = {
        "size": {"nodes": nodes, "slots": 4, "masters": masters},
        "load": {"rate": rate, "task_s": 1.2, "beat_s": 1.0},
        "timers": False,
        "workers": workers,
        "own_grants": own_grants,
    }
    machine = {"cores": 2, "cpu": "made up", "python": "3.11"}
    about = {"benchmark": "task", "commit": "0123456789ab", "settings": settings, "machine": machine}
    return about | figures | more


def _figures(load: ProxyLoad) -> dict[str, Any]:
    each = [amount * term.things(load) for amount, term in zip(CPU_S, CPU, strict=True)]
    cores = sum(each) + FURTHER * (load.workers - 1) * sum(each[term] for term in SHARED)
    memory = sum(amount * term.things(load) for amount, term in zip(MEMORY_MB, MEMORY, strict=True))
    names = ["proxy"] if load.workers == 1 else [f"worker-{number}" for number in range(load.workers)]
    ends = {"nodes": load.reports * 500 + load.tasks * 100, "masters": load.heartbeats * 90, "rm": load.tasks * 300}
    return {
        "per_s": {"completed": load.tasks, "heartbeats": load.heartbeats, "reports": load.reports},
        "cores": dict.fromkeys(names, cores / len(names)),
        "memory_mb": dict.fromkeys(names, memory / len(names)) | (BESIDE if load.workers > 1 else {}),
        "bytes_per_s": {f"{way}_{end}": count / 2 for way in ("from", "to") for end, count in ends.items()},
    }


def results() -> list[Mapping[str, Any]]:
    """Return results whose settings tell all terms apart."""
    plain = [result(size) for size in LOADS]
    own = [result(size, own_grants=True) for size in LOADS]
    several = [result(size, workers=2, own_grants=own_grants) for size in LOADS for own_grants in (False, True)]
    return [*plain, *own, *several]


def test_the_fit_recovers_what_made_up_runs_are_made_of() -> None:
    model = SizingModel(runs_of(results()))
    assert model.cpu.one_process.amounts == pytest.approx(CPU_S, rel=1e-6)
    assert model.cpu.further_ratio == pytest.approx(FURTHER)
    assert model.memory.amounts == pytest.approx(MEMORY_MB, rel=1e-6)
    assert model.beside_mb == 70
    assert max(model.cpu.worst_ratio(), model.memory.worst_ratio()) < 1e-6
    assert model.bytes["nodes"].amounts == pytest.approx((500, 100))
    assert model.bytes["masters"].amounts == pytest.approx((90, 0), abs=1e-6)


def test_the_fit_weighs_errors_as_parts_and_no_amount_is_negative() -> None:
    rows_of = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 1000.0]])
    assert amounts_of(rows_of, np.array([3.0, 5.0, 2001.0])) == pytest.approx((1, 2))
    falling = amounts_of(rows_of, np.array([5.0, 4.0, 3.0]))
    assert falling[1] == 0 and 3 < falling[0] < 5
    assert amounts_of(np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([4.0, 8.0])) == pytest.approx((4, 0))


def test_what_no_run_had_is_not_known() -> None:
    model = SizingModel(runs_of(result(size) for size in LOADS))
    assert not math.isnan(model.cpu.of(load_of(1000, 1000, 2000)))
    assert math.isnan(model.cpu.of(load_of(1000, 1000, 2000, own_grants=True)))
    assert model.needs(load_of(1000, 1000, 2000, own_grants=True)).workers is None
    assert math.isnan(model.cpu.of(replace(load_of(1000, 1000, 2000), workers=2)))
    with pytest.raises(ValueError, match="no run of one process"):
        SizingModel(runs_of([result(LOADS[0], workers=2)]))
    with pytest.raises(ValueError, match="no result of `bench task` is kept"):
        SizingModel([])


def test_as_few_workers_as_leave_each_a_part_of_its_core() -> None:
    model = SizingModel(runs_of(results()))
    load = load_of(1000, 1000, 2000)
    needs = model.needs(load)
    assert needs.workers is not None and needs.workers > 1
    assert needs.cores <= FULL_RATIO * needs.workers
    fewer = ProxyLoad(1000, 2000, 1000, 2000, load.reports, workers=needs.workers - 1)
    assert model.cpu.of(fewer) > FULL_RATIO * fewer.workers
    assert needs.memory_mb == pytest.approx(100 + 60 * (needs.workers - 1) + 50 * needs.workers + 40 + 70)
    assert model.needs(load_of(10_000, 20_000, 2000)).workers is None, "news of the others fill a core"
    most = model.most_tasks(lambda tasks: load_of(1000, tasks, 2000))
    assert model.needs(load_of(1000, most, 2000)).workers is not None
    assert model.needs(load_of(1000, most * 1.01, 2000)).workers is None


def test_a_later_result_replaces_one_of_the_same_settings_and_a_single_process_counts_too() -> None:
    one = result((64, 40, 60))
    later = one | {"commit": "ba9876543210"}
    assert [run.commit for run in runs_of([one, later])] == ["ba9876543210"]
    pair = result(
        (64, 40, 60), workers=2, one={name: one[name] for name in ("per_s", "cores", "memory_mb", "bytes_per_s")}
    )
    assert [run.load.workers for run in runs_of([pair])] == [2, 1]
    timers = one | {"settings": one["settings"] | {"timers": True}}
    ahead = one | {"settings": one["settings"] | {"own_grants": "ahead"}}
    earlier = {name: value for name, value in one.items() if name != "memory_mb"}
    assert runs_of([timers, ahead, earlier]) == []


def test_reports_come_with_changes_and_else_each_two_seconds() -> None:
    assert reports_per_s(1000, 0) == pytest.approx(500, rel=0.02)
    assert reports_per_s(1000, 50) == pytest.approx(1000 * 1 / (0.02 + 10 * (1 - math.exp(-0.2))), rel=1e-6)
    assert reports_per_s(10, 1e6) == pytest.approx(500, rel=0.01), "each 20 ms at most"


def test_each_row_says_whether_it_was_measured() -> None:
    workers = SizingModel(runs_of(results())).needs(load_of(1000, 1000, 2000)).workers
    assert workers is not None
    table = list(rows(SizingModel(runs_of([*results(), result((1000, 2000, 1000), workers=workers)]))))
    needs = [row for row in table[2:20] if row.startswith("| 1,000 | 2,000 | 1,000 |")]
    assert len(table[2:20]) == 18 and all("measured" in row or "model" in row for row in table[2:20])
    assert len(needs) == 1 and "| measured / model" in needs[0], needs
    assert any("x nodes" in row for row in table) and table[-1].startswith("Calibrated on the 25 measurements above")


def test_the_newest_kept_results_are_read(tmp_path: Path) -> None:
    for name, commit in (("task-20260102-000000", "newer"), ("task-20260101-000000", "older"), ("relay-1", "other")):
        text = json.dumps(result((64, 40, 60)) | {"commit": commit})
        (tmp_path / f"{name}.json.xz").write_bytes(lzma.compress(text.encode()))
    assert [run.commit for run in kept_runs(tmp_path)] == ["newer"]


def test_the_page_has_the_tables_as_they_are() -> None:
    page = ROOT / "docs" / "sizing.md"
    assert page.read_text() == with_tables(page.read_text(), ROOT / FIGURES), f"the page is not up to date; {COMMAND}"
