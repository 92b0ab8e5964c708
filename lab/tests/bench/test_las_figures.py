"""Figures, page and options of bench-las, and how tasks tell their master that they are done."""

import asyncio
import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from hadoop_rpc.protos import yarn_pb2
from policies.config.presets import PRESETS, laid_over
from quicksilver.report.model import Prose, names_of
from quicksilver_lab.bench.las import figures, gstart, modes, run
from quicksilver_lab.bench.las.jobs import LasScale
from quicksilver_lab.bench.las.master import Counts, container_name, rows
from quicksilver_lab.bench.las.umbilical import Note, opened
from quicksilver_lab.bench.las.workload import LasOutcome, LasRun
from quicksilver_lab.bench.page.las import samples_of
from quicksilver_lab.bench.page.pages import beside, page_of

ALONE_S = {"small": 4.0, "long": 60.0}
STOCK_S = {"small": 8.0, "long": 60.0}


def outcome(kind: str, completion_s: float | None, **counts: int) -> LasOutcome:
    broken = "" if completion_s is not None else "not over in time"
    return LasOutcome(1, kind, 0.0, completion_s, broken=broken, counts=asdict(Counts(**counts)))


def test_slowdown_is_against_the_class_alone() -> None:
    done = [outcome("small", 8.0), outcome("small", 4.0), outcome("long", 90.0), outcome("small", None, killed=2)]
    found = figures.mode_figures(LasRun(done, 100.0, 1.9, 1.5), ALONE_S, STOCK_S)
    assert (found["jobs"], found["finished"], found["failed_jobs"]) == (4, 3, 1)
    assert found["containers"]["killed"] == 2
    assert found["completion_p50_s"] == 8 and found["slowdown_p50"] == 1.5
    assert found["slowdown_mean"] == 1.5
    assert found["by_class"]["small"]["slowdown_mean"] == 1.5 and found["by_class"]["long"]["slowdown_p99"] == 1.5
    assert found["worst_class_slowdown_ratio"] == 1
    assert found["slowdown_stock_p99"] < found["slowdown_p99"]


def test_the_worst_class_is_told() -> None:
    found = figures.mode_figures(LasRun([outcome("small", 4.0), outcome("long", 180.0)], 1.0, 1, 1), ALONE_S, STOCK_S)
    assert found["worst_class_slowdown_ratio"] == 1.5  # 3 against (1 + 3) / 2
    assert found["worst_class_slowdown_ratio_stock"] == 1.714  # 3 against (0.5 + 3) / 2


def test_without_a_finished_job_there_is_nothing_to_show() -> None:
    with pytest.raises(ValueError, match="no job finished"):
        figures.mode_figures(LasRun([outcome("small", None)], 1.0, 1, 1), ALONE_S, ALONE_S)


def test_ratios_are_las_by_the_others() -> None:
    def one(p50: float, p99: float) -> dict[str, float]:
        worst = {"worst_class_slowdown_ratio": 1, "worst_class_slowdown_ratio_stock": 2}
        return worst | {"completion_p50_s": p50, "completion_p99_s": p99, "slowdown_stock_p50": p50}

    found = figures.compared({"fifo": one(40, 100), "opportunistic": one(20, 50), "las": one(10, 60)})
    assert (found["median_ratio"], found["p99_ratio"]) == (0.25, 0.6)
    assert (found["median_ratio_opportunistic"], found["p99_ratio_opportunistic"]) == (0.5, 1.2)
    assert figures.compared({"fifo": one(40, 100)}) == {}


def test_goals_are_those_of_las_and_of_the_default_preset() -> None:
    times = {"fifo": (40.0, 100.0), "las": (14.0, 101.0), "quicksilver": (20.0, 90.0)}
    by_mode = {name: {"completion_p50_s": p50, "completion_p99_s": p99} for name, (p50, p99) in times.items()}
    assert figures.goals(by_mode) == {
        "median_ratio": {"value": 0.35, "goal": 0.35, "at_most": True, "met": True},
        "p99_ratio": {"value": 1.01, "goal": 1.0, "at_most": True, "met": False},
        "quicksilver.median_ratio": {"value": 0.5, "goal": 0.35, "at_most": True, "met": False},
        "quicksilver.p99_ratio": {"value": 0.9, "goal": 1.0, "at_most": True, "met": True},
    }
    assert figures.goals({"las": by_mode["las"]}) == {}


def test_presets_are_run_as_they_are_but_for_the_quantum() -> None:
    las, default = modes.las(LasScale()), modes.quicksilver(LasScale())
    assert las.policies is not None and default.policies == {"preset": "default"}
    assert (las.vcores, default.vcores) == (6, 3)
    preset = dict(PRESETS["kairos"].section)
    preset["preempt"] = {"policy": "las", "settings": preset["preempt"]["settings"] | {"quantum_s": 2.75}}
    assert laid_over(las.policies) == preset | {"preset": "kairos", "retries_to_g": 1_000_000}


def test_keys_of_guaranteed_starts() -> None:
    found = gstart.figures({"las": gstart.LasStarts([1, 3], [6, 6], 0), "stock": gstart.LasStarts([5, 7], [2, 3], 2)})
    assert (found["g_start_p50_ms"], found["g_start_p50_ms_stock"]) == (2, 6)
    assert found["g_start_p99_ms"] == 3.0 and found["g_start"]["stock"]["killed_containers"] == 2
    assert found["g_start"]["stock"]["running_at_least"] == 2


def test_a_result_has_a_page_with_its_distributions(tmp_path: Path) -> None:
    runs = {
        name: asdict(LasRun([outcome("small", 4.0), outcome("long", 70.0), outcome("long", None)], 1.0, 1, 1))
        for name in ("fifo", "las")
    }
    goals = figures.goals(
        {name: {"completion_p50_s": 4.0, "completion_p99_s": p99} for name, p99 in (("fifo", 70.0), ("las", 63.0))}
    )
    result = {"benchmark": "las", "alone_s": {"fifo": ALONE_S}, "goals": goals, "raw": {"modes": runs}}
    assert samples_of(result)["las"] == {"completion_s": [4.0, 70.0], "slowdown": [1.0, 70 / 60]}
    path = tmp_path / "las-1.json"
    path.write_text(json.dumps(result))
    page = page_of(json.loads(path.read_text()))
    assert page.sections[0].blocks == [
        Prose("1 of 2 goals are met."),
        Prose("Missed: `median_ratio` (1.00, goal 0.350)."),
    ]
    assert [(plot.title, names_of(plot)) for plot in page.plots()] == [
        ("Job completion", ["YARN, FIFO", "quicksilver, preset kairos"]),
        ("Slowdown", ["YARN, FIFO", "quicksilver, preset kairos"]),
    ]
    assert beside(path).read_text().count('class="lines"') == 2


@pytest.mark.parametrize(
    ("parts", "why"), (("fifo,lass", "lass: not one of fifo"), ("las,gstart", "fifo is needed"), ("", ": not one of"))
)
def test_wrong_parts_are_one_line(parts: str, why: str) -> None:
    done = CliRunner().invoke(run.las, ["--parts", parts])
    assert done.exit_code == 2 and why in done.output


def test_a_task_tells_begin_and_end_and_works_for_as_long_as_it_was_told(tmp_path: Path) -> None:
    async def main() -> tuple[list[Note], int]:
        with opened(tmp_path / "tasks.pipe") as umbilical:
            notes: list[Note] = []
            umbilical.listen("container_1", notes.append)
            for name in ("container_1", "container_2"):
                command = umbilical.command(name, 0.2)
                done = await asyncio.to_thread(subprocess.run, command, shell=True, timeout=30, check=False)
            await asyncio.sleep(0)
            umbilical.forget("container_1")
            return notes, done.returncode

    notes, code = asyncio.run(main())
    assert code == 0 and [note.begin for note in notes] == [True, False]
    assert 0.2 <= notes[1].value < 0.3 and notes[1].at_s - notes[0].at_s > 0.1
    assert not (tmp_path / "tasks.pipe").exists()


def test_a_task_without_its_master_fails(tmp_path: Path) -> None:
    async def command() -> str:
        with opened(tmp_path / "tasks.pipe") as umbilical:
            return umbilical.command("container_1", 5.0)

    done = subprocess.run(asyncio.run(command()), shell=True, capture_output=True, timeout=30, check=False)
    assert done.returncode == 1 and b"FileNotFoundError" in done.stdout


def test_asks_are_complete_triplets_where_there_is_locality() -> None:
    maps = rows(20, 3, ("127.0.0.11",), opportunistic=True)
    assert [row.resource_name for row in maps] == ["127.0.0.11", "/default-rack", "*"]
    assert all(row.num_containers == 3 and row.relax_locality for row in maps)
    assert maps[0].execution_type_request.execution_type == yarn_pb2.OPPORTUNISTIC
    assert maps[0].execution_type_request.enforce_execution_type
    [reduce] = rows(10, 1, (), opportunistic=False)
    assert reduce.resource_name == "*" and not reduce.execution_type_request.enforce_execution_type


def test_container_names_are_yarns() -> None:
    container = yarn_pb2.ContainerIdProto(id=12)
    container.app_attempt_id.attemptId = 1
    container.app_attempt_id.application_id.id, container.app_attempt_id.application_id.cluster_timestamp = 7, 1234
    assert container_name(container) == "container_1234_0007_01_000012"


def test_las_is_the_thesis_setting_scaled() -> None:
    mode = modes.las(LasScale())
    assert mode.policies is not None
    assert mode.policies["preempt"] == {"policy": "las", "settings": {"quantum_s": 2.75, "extra": 4}}
    assert (mode.vcores, mode.cores, modes.fifo(LasScale()).vcores) == (6, 2, 2)
