"""The figures of Zoe's evaluation: which runs they need, and that they compare like with like."""

import pytest
from click.testing import CliRunner

from quicksilver.simulator.model import JobOutcome, SimResult
from quicksilver_lab.bench.sim.zoe import figures, measure, on_servers, ratios, runs, zoe
from quicksilver_lab.papers.zoe.model import BATCH_RIGID, INTERACTIVE


def test_parts_share_no_run_and_make_their_own_ratios() -> None:
    names = [name for name, _, _ in runs(("disciplines", "sizes", "preemption", "ratio"))]
    assert len(names) == len(set(names)) == 6 + 4 + 4 + 3
    assert [name for name, share, _ in runs(("disciplines", "preemption")) if share] == [
        "srpt flexible",
        "srpt preemptive",
        "srpt flexible by hand",
        "srpt preemptive by hand",
    ]


def test_figures_of_a_run() -> None:
    outcomes = [
        JobOutcome(1, 0.0, 10.0, 1, 1.0, wait_s=4.0),
        JobOutcome(2, 0.0, 20.0, 1, 1.0, klass=INTERACTIVE, wait_s=8.0),
    ]
    found = figures(SimResult("zoe", 1, outcomes, extra={"cores_share": 0.5}), cpu_s=0.5)
    assert found == {
        "turnaround_mean_s": 15.0,
        "turnaround_median_s": 15.0,
        "wait_mean_s": 6.0,
        "wait_median_s": 6.0,
        "cores_share": 0.5,
        "cpu_s": 0.5,
        "apps_per_cpu_s": 4.0,
        "interactive_wait_mean_s": 8.0,
        "interactive_wait_median_s": 8.0,
        "interactive_wait_p95_s": 8.0,
    }


def test_figures_by_class() -> None:
    outcomes = [JobOutcome(n, 0.0, n * 10.0, 1, 1.0, klass=BATCH_RIGID) for n in (1, 2, 6)]
    found = figures(SimResult("zoe", 1, outcomes), cpu_s=1)
    assert (found["batch-rigid_turnaround_mean_s"], found["batch-rigid_turnaround_median_s"]) == (30, 20)
    assert "batch-elastic_turnaround_mean_s" not in found


def test_ratios_are_flexible_to_the_other() -> None:
    one = {"turnaround_mean_s": 9.0, "turnaround_median_s": 1.0, "cores_share": 0.8}
    other = {"turnaround_mean_s": 10.0, "turnaround_median_s": 2.0, "cores_share": 0.4}
    assert ratios({"sjf-2d flexible": one, "sjf-2d rigid": other}) == {
        "sjf-2d_flexible_to_rigid_turnaround_mean": 0.9,
        "sjf-2d_flexible_to_rigid_turnaround_median": 0.5,
        "sjf-2d_flexible_to_rigid_cores": 2.0,
    }
    waits = {"srpt flexible": {"interactive_wait_mean_s": 50.0}, "srpt preemptive": {"interactive_wait_mean_s": 0.5}}
    assert ratios(waits) == {"srpt_preemptive_to_flexible_interactive_wait_mean": 0.01}
    assert ratios({name: {"interactive_wait_mean_s": 0.0} for name in waits}) == {}, "nobody waited"


@pytest.mark.parametrize("part", ("disciplines", "sizes", "preemption", "ratio"))
def test_a_small_measurement_has_all_keys(part: str) -> None:
    result, raw = measure((part,), 60, (1, 2))
    assert result["seeds"] == len(raw) == 2
    assert result["zoe_60_apps_s"]["median"] > 0
    assert set(result["apps_per_cpu_s"]) == set(result["runs"]) == {name for name, _, _ in runs((part,))}
    assert bool(result["ratios"]) == (part != "preemption"), "60 applications do not wait for each other"


def test_one_property_of_the_mix_is_changed() -> None:
    bursts = measure(("ratio",), 300, (1,))[1]["1"]["hrrn flexible"]
    single = measure(("ratio",), 300, (1,), {"burst": 1.5, "together": 1})[1]["1"]["hrrn flexible"]
    assert bursts["turnaround_mean_s"] != single["turnaround_mean_s"]
    wrong = CliRunner().invoke(zoe, ["--mix", "burst=0.5", "--mix", "core=3"])
    assert wrong.exit_code == 2
    assert "burst" in wrong.output and "core" in wrong.output and "elastic_core" in wrong.output


def test_ten_servers_are_shared_better_by_the_flexible_discipline() -> None:
    found = on_servers(1)
    assert set(found) == {"memory_share", "batch-elastic_turnaround_median", "batch-rigid_turnaround_median"}
    assert found["batch-elastic_turnaround_median"] < 1 < found["memory_share"]
    assert found == on_servers(1) != on_servers(2)
