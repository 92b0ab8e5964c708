"""Figures of a run of applications, their ratios, and the page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from click.testing import CliRunner

from quicksilver.report.model import Lines
from quicksilver_lab.bench.emulator.masters.application import ApplicationSpan, MasterRecord
from quicksilver_lab.bench.page.pages import page_of
from quicksilver_lab.bench.zoe.figures import CAPACITY_MB, mean_over, ratios, steps, summary
from quicksilver_lab.bench.zoe.live import LiveResult
from quicksilver_lab.bench.zoe.run import PAPER, compared, ideal, over_seeds, zoe
from quicksilver_lab.bench.zoe.systems import ADMISSIONS, NAMES, system
from quicksilver_lab.bench.zoe.workload import ZoeWorkload, applications
from quicksilver_lab.papers.zoe.model import BATCH_ELASTIC, BATCH_RIGID

HALF = CAPACITY_MB // 2


def record(number: int, klass: str, submitted_s: float, began_s: float, ended_s: float | None) -> MasterRecord:
    spans = [ApplicationSpan(True, HALF, began_s - 1, began_s, ended_s)] if ended_s is not None else []
    return MasterRecord(
        number, klass, 4.0, submitted_s, submitted_s, began_s - 1, began_s, ended_s, preempted=number, spans=spans
    )


RESULT = LiveResult(
    "stock",
    [record(1, BATCH_ELASTIC, 0.0, 2.0, 10.0), record(2, BATCH_RIGID, 4.0, 6.0, 12.0)],
    {"doubled": 0, "surplus": 3},
    {"rm": 1.0},
)


def test_times_by_class() -> None:
    found = summary(RESULT)
    assert (found["applications"], found["lost"], found["doubled"], found["strays"]) == (2, 0, 0, 0)
    assert (found["preempted"], found["surplus"]) == (3, 3)
    assert (found["turnaround_mean_s"], found["turnaround_mean_s_B-E"], found["turnaround_mean_s_B-R"]) == (9, 10, 8)
    assert (found["queuing_mean_s"], found["slowdown_mean"]) == (2, 2.25)


def test_allocation_by_time() -> None:
    found = summary(RESULT)
    assert found["makespan_s"] == 12
    assert found["allocation"] == pytest.approx((8 + 6) / 2 / 12, abs=1e-4)
    assert found["allocation_while_arriving"] == pytest.approx(2 / 2 / 4)
    assert found["granted"] == pytest.approx((9 + 7) / 2 / 12, abs=1e-4)
    assert (found["allocation_peak"], found["allocation_p50"]) == (1.0, 0.25)


def test_an_application_that_did_not_end_is_lost() -> None:
    result = LiveResult("stock", [*RESULT.records, record(3, BATCH_RIGID, 5.0, 9.0, None)])
    found = summary(result)
    assert (found["applications"], found["ended"], found["lost"]) == (3, 2, 1)
    assert summary(LiveResult("stock", [record(3, BATCH_RIGID, 5.0, 9.0, None)]))["lost"] == 1


def test_steps_and_their_mean() -> None:
    used = steps(
        [
            ApplicationSpan(True, 2, 0.0, 1.0, 3.0),
            ApplicationSpan(False, 4, 0.0, 2.0, 4.0),
            ApplicationSpan(False, 9, 1.0),
        ],
        "began_s",
    )
    assert used == [(1.0, 2), (2.0, 6), (3.0, 4), (4.0, 0)]
    assert mean_over(used, 0.0, 4.0) == (2 + 6 + 4) / 4
    assert mean_over(used, 2.5, 3.5) == (3 + 2) / 1
    assert mean_over(used, 1.0, 1.0) == 0


def test_ratios_of_each_system_to_those_before_it() -> None:
    base, other = {"turnaround_p50_s": 4.0, "turnaround_p50_s_B-E": 2.0, "allocation": 0.5}, {"turnaround_p50_s": 2.0}
    assert ratios(other, base) == {"turnaround_p50": 0.5}
    assert ratios(base, base) == {"turnaround_p50": 1.0, "turnaround_p50_B-E": 1.0, "allocation": 1.0}
    assert list(compared({"stock": base, "rigid": base, "flexible": other})) == [
        "rigid/stock",
        "flexible/stock",
        "flexible/rigid",
    ]
    seeds = {"1": {"r": {"a/b": {"x": 1.0, "y": 1.0}}}, "2": {"r": {"a/b": {"x": 3.0}}}}
    assert over_seeds(seeds, "r") == {"a/b": {"x": {"median": 2.0, "min": 1.0, "max": 3.0}}}


def test_the_simulator_has_the_same_figures_and_flexible_is_better() -> None:
    found = ideal(applications(ZoeWorkload(seed=1)), ("rigid", "flexible"), "fifo", "1d")
    both = compared(found)["flexible/rigid"]
    assert set(PAPER) - {"allocation"} <= set(both)
    assert both["turnaround_p50"] < 1 < both["allocation_while_arriving"]


def test_systems_are_settings_alone() -> None:
    assert not system("stock").quicksilver and system("stock").nm_queue_length == 0
    for name in ADMISSIONS:
        found = system(name, "sjf", "2d")
        assert found.policies == {
            "preset": "zoe",
            "admit": {"policy": name, "settings": {"order": "sjf", "size": "2d", "count": "memory"}},
        }
        assert found.admission == name
    assert system("default").admission == ""
    with pytest.raises(KeyError):
        system("nothing")


@pytest.mark.parametrize(
    ("words", "said"),
    ((["--systems", "stock,none"], "choose from stock, rigid"), (["--scale", "0"], "a scale and load above 0")),
)
def test_what_cannot_be_run_is_an_error_of_usage(words: list[str], said: str) -> None:
    done = CliRunner().invoke(zoe, words)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


def test_the_page_has_all_systems_and_the_distributions_of_figure_10() -> None:
    figures = summary(RESULT)
    seed: dict[str, Any] = {"systems": {"stock": figures, "rigid": figures}, "simulated": {"rigid": figures}}
    both = compared(seed["systems"])
    raw = {"1": {name: {"records": [asdict(one) for one in RESULT.records]} for name in ("stock", "rigid")}}
    page = page_of(
        {
            "benchmark": "zoe",
            "ratios": over_seeds({"1": {"ratios": both}}, "ratios"),
            "seeds": {"1": seed},
            "paper": {"flexible/rigid": dict(PAPER)},
            "policies": {"rigid": system("rigid").policies},
            "raw": raw,
        }
    )
    assert [section.title for section in page.sections] == ["In short", "Compared", "Seed 1"]
    assert [plot.title for plot in page.plots() if isinstance(plot, Lines)] == [
        "Turnaround, all",
        "Turnaround, elastic",
        "Turnaround, rigid",
    ]
    assert "`rigid` against `stock`" in str(page.sections[0].blocks)
    assert set(NAMES) >= {"stock", "rigid", "flexible", "malleable", "preemptive", "default"}
