"""`quicksilver simulate` and `tune` from their options to what they print and write."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from quicksilver.cli import cli
from quicksilver.report.model import ReportEstimate
from quicksilver.simulator.cli import to_set
from quicksilver.simulator.count_names import meaning
from quicksilver.simulator.options import joined
from quicksilver.simulator.sweep import Variant
from quicksilver.simulator.tune import Verdict
from tests.quicksilver.simulator.queues import register, write_trace

Run = Callable[..., Result]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "trace.jsonl")


@pytest.fixture
def quicksilver(monkeypatch: pytest.MonkeyPatch) -> Run:
    register(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["quicksilver", "simulate", "TRACE"])
    return lambda *args: CliRunner().invoke(cli, [*map(str, args), "--processes=1"])


def test_one_system_on_a_trace(quicksilver: Run, trace: Path) -> None:
    result = quicksilver("simulate", trace, "--system", "queues", "--nodes", 10, "--cutoff-s", 10, "--seeds", 2)
    assert result.exit_code == 0, result.output
    assert "trace: trace.jsonl: 120 jobs, 336 tasks" in result.output
    assert "long jobs: tasks of more than 10 s" in result.output
    assert re.search(r"^queues +12 +\d", result.output, re.MULTILINE)


def test_a_sweep_against_another_system_with_all_its_files(quicksilver: Run, trace: Path, tmp_path: Path) -> None:
    options = ("--compare", "queues", "others", "--sweep", "queues.choices=1,2", "--nodes=10", "--seeds=3")
    found = quicksilver("simulate", trace, *options, "--out", tmp_path / "out", "--formats=json,csv", "--json")
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert list(result["variants"]) == ["queues choices=1", "queues choices=2", "others"]
    ratio = result["variants"]["queues choices=2"]["against"]["mean_short"]
    assert ratio["ci_low"] <= ratio["value"] <= ratio["ci_high"]
    assert result["variants"]["others"]["against"]["mean_all"] == {"value": 1.0, "ci_low": 1.0, "ci_high": 1.0}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"runs.jsonl", "result.json", "runs.csv"}
    before = (tmp_path / "out" / "runs.jsonl").read_bytes()
    again = quicksilver("simulate", trace, *options, "--out", tmp_path / "out", "--formats=csv", "--json")
    assert json.loads(again.stdout)["variants"] == result["variants"]
    assert (tmp_path / "out" / "runs.jsonl").read_bytes() == before


def test_load_chooses_the_nodes_and_says_so_where_neither_is_given(quicksilver: Run, trace: Path) -> None:
    result = quicksilver("simulate", trace, "--system=queues", "--load=0.9", "--slots=2", "--json")
    cluster = json.loads(result.stdout)["cluster"]
    assert (cluster["nodes"], cluster["slots"]) == (10, 2)
    result = quicksilver("simulate", trace, "--system=queues", "--load=0.45", "--nodes=10")
    assert "arrivals 0.266301 times as fast" in result.output
    assert "offered load: 0.45 of the slots over 894 s" in result.output
    result = quicksilver("simulate", trace, "--system=queues")
    assert result.exit_code == 1
    assert "give --nodes, or --load 0.9 (which is 19 nodes)" in result.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--system=queue"], r"did you mean 'queues'\?"),
        ([], r"name a system: --system NAME; --list shows them"),
        (["--system=queues", "--nodes=1", "--sweep", "choices"], r"--sweep: 'choices' sets nothing"),
        (["--system=queues", "--nodes=1", "--set", "choices=0"], r"queues\.choices: must be >= 1"),
        (["--system=queues", "--nodes=1", "--set", "fails_at=3"], r"queues, seed 1: job 3 fits nowhere"),
        (["--system=queues", "--nodes=1", "--formats=xml"], r"xml: not one of json, csv, parquet, html"),
    ],
)
def test_mistakes_are_one_line(quicksilver: Run, trace: Path, options: list[str], said: str) -> None:
    result = quicksilver("simulate", trace, *options)
    assert result.exit_code in (1, 2)
    assert re.search(said, result.output), result.output


def test_a_settings_file_of_production_is_checked_and_taken(quicksilver: Run, trace: Path, tmp_path: Path) -> None:
    config = tmp_path / "quicksilver.yaml"
    config.write_text("policies:\n  queues: ['*']\n  place: {policy: topk_wait, settings: {k: 5}}\n")
    options = ("simulate", trace, "--system=queues", "--nodes=10", "--config", config)
    result = quicksilver(*options, "--set", "place.k=7", "--json")
    settings = json.loads(result.stdout)["variants"]["queues"]["settings"]
    assert settings["policies"]["place"] == {"policy": "topk_wait", "settings": {"k": 7}}
    config.write_text("policies:\n  place: {policy: topk_wait, settings: {k: 0}}\n")
    result = quicksilver(*options)
    assert result.exit_code == 1
    assert re.search(r"quicksilver\.yaml:2:\d+: policies\.place\.settings\.k: must be >= 1", result.output)


def test_another_study_does_not_go_into_the_same_folder(quicksilver: Run, trace: Path, tmp_path: Path) -> None:
    options = ("simulate", trace, "--system=queues", "--out", tmp_path / "out", "--formats=csv")
    assert quicksilver(*options, "--nodes=10").exit_code == 0
    result = quicksilver(*options, "--nodes=11")
    assert result.exit_code == 1
    assert "holds runs of another study: cluster was" in result.output


def test_tuning_proposes_what_is_better_with_its_evidence(quicksilver: Run, trace: Path, tmp_path: Path) -> None:
    options = ("tune", trace, "--system=queues", "--nodes=12", "--param", "choices=1,2,6,12", "--goal=p95_short")
    found = quicksilver(*options, "--out", tmp_path / "out", "--formats=csv", "--seeds=5", "--json")
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert result["significant"] is True
    assert result["proposed"]["choices"] > 1
    assert result["ratio"]["ci_high"] < 1
    assert result["verdict"].startswith("Use queues choices=")
    assert [one["seeds"] for one in result["rounds"]] == [2, 4]
    said = quicksilver(*options, "--seeds=5").output
    assert f"To simulate it: --set=choices={result['proposed']['choices']}" in said
    worse = quicksilver("tune", trace, "--system=queues", "--nodes=12", "--set=choices=12", "--param=choices=1,2")
    assert "keep them" in worse.output


def test_a_proposal_of_policies_is_said_as_the_settings_file_has_it() -> None:
    present, best = (
        Variant("m", "m", "m:S", {}, {"policies": {"order": {"policy": "fifo"}, "place": place}}, {"place.k": k})
        for place, k in (({"policy": "random"}, 1), ({"policy": "topk_wait", "settings": {"k": 20}}, 20))
    )
    verdict = Verdict("mean_all", present, best, [], ReportEstimate(0.5, 0.4, 0.6), 8, True, [])
    assert to_set(verdict) == (
        "To simulate it: --set=place.k=20\nIn quicksilver.yaml:\npolicies:\n  place:\n    policy: topk_wait\n"
        "    settings:\n      k: 20"
    )


def test_broken_jobs_are_left_out_and_told(quicksilver: Run, trace: Path) -> None:
    trace.write_text(f"{trace.read_text()}nonsense\n")
    options = ("simulate", trace, "--system=queues", "--nodes=10")
    stopped = quicksilver(*options)
    assert stopped.exit_code == 1
    assert "trace.jsonl:121: " in stopped.output and "leave such jobs out with --skip" in stopped.output
    result = quicksilver(*options, "--skip")
    assert "trace.jsonl: 120 jobs, 336 tasks; 1 broken jobs left out" in result.output
    assert "left out: " in result.stderr and "trace.jsonl:121" in result.stderr


def test_systems_and_settings_are_listed(quicksilver: Run) -> None:
    assert re.search(r"^queues +A small system to try", quicksilver("simulate", "--list").output, re.MULTILINE)
    assert re.search(
        r"^choices +int +1 +1\.\. +Queues to look at", quicksilver("simulate", "--describe", "queues").output, re.M
    )
    assert "did you mean 'queues'" in quicksilver("simulate", "--describe", "queue").output


def test_words_after_compare_belong_to_it(trace: Path) -> None:
    assert joined(["--compare", "a", "b", "--nodes", "5"], "--compare") == ["--compare", "a,b", "--nodes", "5"]
    assert joined([str(trace), "--compare", "a"], "--compare") == [str(trace), "--compare", "a"]
    assert joined(["--compare", "a", "b", str(trace), "c"], "--compare") == ["--compare", "a,b", str(trace), "c"]


def test_a_folder_with_the_name_of_a_system_ends_no_list_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quicksilver").mkdir()
    assert joined(["--compare", "eagle", "quicksilver"], "--compare") == ["--compare", "eagle,quicksilver"]


def test_the_shell_completes_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)
    complete = ShellComplete(cli, {}, "quicksilver", "_QUICKSILVER_COMPLETE")
    assert [item.value for item in complete.get_completions(["simulate", "--system"], "que")] == ["queues"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("0 1 10 1e300\n", "a task takes 1e+300 s"),
        ("0 1 10 10\n1700000000 1 10 10\n", "jobs arrive over 1.7e+09 s"),
    ],
)
def test_times_of_centuries_are_refused(quicksilver: Run, tmp_path: Path, text: str, what: str) -> None:
    wrong = tmp_path / "wrong.txt"
    wrong.write_text(text)
    result = quicksilver("simulate", wrong, "--system", "queues", "--nodes", 10)
    assert result.exit_code == 1
    assert f"wrong.txt: {what}; mend it: a trace has seconds, and 1e+08 at most (three years)" in result.output


def test_a_pipe_is_no_trace_of_a_study(quicksilver: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = quicksilver("simulate", tmp_path / "pipe", "--system", "queues", "--nodes", 10)
    assert "pipe: is a pipe, and each run reads the trace anew; write it to a file first" in result.output


@pytest.mark.parametrize("option", ["--load", "--delay-s", "--speed", "--error", "--sample", "--cutoff-s"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_numbers_that_are_none_are_refused(quicksilver: Run, trace: Path, option: str, value: str) -> None:
    result = quicksilver("simulate", trace, "--system", "queues", "--nodes", 10, option, value)
    assert result.exit_code == 2 and f"Invalid value for '{option}': {value} is" in result.output, result.output


@pytest.mark.parametrize("cluster", ["--load=1e-300", "--nodes=1000000000000", "--slots=2000000"])
def test_clusters_that_no_memory_holds_are_refused(quicksilver: Run, trace: Path, cluster: str) -> None:
    more = [] if "load" in cluster else ["--nodes=1"]
    result = quicksilver("simulate", trace, "--system", "queues", *more, cluster)
    assert result.exit_code == 1 and "slots; 1,000,000 at most; give a higher --load" in result.output, result.output


README_ROUTES = """policies:
  queues: [{queue}]
  routes:
    - match: {{type: MAPREDUCE}}
      policy: only_q
"""


def test_a_settings_file_under_which_nothing_is_queueable_is_told(tmp_path: Path, trace: Path) -> None:
    config = tmp_path / "quicksilver.yaml"
    options = (trace, "--system=quicksilver", "--nodes=20", "--first=3", "--config", config, "--json", "--processes=1")
    granted = []
    for queue in ("root.batch", "root.default"):
        config.write_text(README_ROUTES.format(queue=queue))
        result = CliRunner().invoke(cli, ["simulate", *map(str, options)])
        (counts,) = json.loads(result.stdout)["variants"]["quicksilver route=only_q"]["counts"]
        granted.append(counts.get("granted Q", 0) > 0)
        assert granted[-1] is not ("no container was queueable" in result.stderr), result.stderr
        if not granted[-1]:
            assert "the jobs are of root.default, of type MAPREDUCE" in result.stderr
    assert granted == [False, True]


def test_tune_tells_a_wrong_goal_after_one_run_and_names_its_own_option(
    quicksilver: Run, trace: Path, tmp_path: Path
) -> None:
    options = ("tune", trace, "--system=queues", "--nodes=12", "--out", tmp_path / "out")
    result = quicksilver(*options, "--param=choices=1,2,6,12", "--goal=p95_shrt")
    assert "--goal: no run has a figure 'p95_shrt'; choose from mean, " in result.output
    assert len((tmp_path / "out" / "runs.jsonl").read_text().splitlines()) == 2  # what the study is, one run
    assert "--param: queues has no setting 'choice'" in quicksilver(*options, "--param=choice=1,2").output


def test_a_generator_with_a_seed_of_its_own_has_the_same_jobs_for_all_seeds(quicksilver: Run) -> None:
    for name, differs in (("gen:yahoo", True), ("gen:yahoo:7", False)):
        result = quicksilver("simulate", name, "--first=3", "--system=queues", "--nodes=10").output
        assert ("each seed has others of the same kind" in result) is differs, result


def test_jobs_that_arrive_at_once_offer_no_load(quicksilver: Run, tmp_path: Path) -> None:
    batch = tmp_path / "batch.txt"
    batch.write_text("5 2 10 10 10\n5 1 10 10\n")
    assert (
        "offered load: all jobs arrive at once\n"
        in quicksilver("simulate", batch, "--system=queues", "--nodes=2").output
    )
    empty = tmp_path / "empty.txt"
    empty.write_text("0 1 0 0\n5 1 0 0\n")
    for trace, options in (
        (batch, ["--load=0.9"]),
        (batch, ["--load=0.9", "--nodes=2"]),
        (empty, ["--load=1", "--nodes=2"]),
    ):
        result = quicksilver("simulate", trace, "--system=queues", *options)
        assert result.exit_code == 1 and "are no load; give --nodes without --load" in result.output
    assert "not known; give --nodes\n" in quicksilver("simulate", batch, "--system=queues").output


def test_the_product_is_compared_with_its_own_world_where_everything_is_guaranteed(tmp_path: Path, trace: Path) -> None:
    options = (trace, "--compare", "yarn_fifo", "quicksilver", "--nodes=20", "--first=3", "--set=node_beat_s=2")
    result = CliRunner().invoke(cli, ["simulate", *map(str, options), "--processes=1", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    variants = found["variants"]
    stock = ["yarn_capacity", "yarn_fair", "opportunistic"]
    assert list(variants) == ["quicksilver only_g", *stock, "yarn_fifo", "quicksilver preset=default"]
    assert found["base"] != "quicksilver preset=default"
    counted = {name for one in variants.values() for run in (*one["counts"], *one["extra"]) for name in run}
    assert [name for name in sorted(counted) if not meaning(name)] == [], "the report says what each count is"
    base, ours = variants["quicksilver only_g"], variants["quicksilver preset=default"]
    others = [{k: v for k, v in one["settings"].items() if k != "policies"} for one in (base, ours)]
    assert others[0] == others[1] and others[0]["node_beat_s"] == 2.0
    assert "granted Q" not in base["counts"][0] and ours["counts"][0]["granted Q"] > 0
    first, chance = found["verdict"]
    assert first.startswith("quicksilver preset=default: its jobs took ") and "of the best stock scheduler (" in first
    assert chance.startswith("One seed: ")


def test_the_verdict_is_on_top_of_the_text(quicksilver: Run, trace: Path) -> None:
    result = quicksilver("simulate", trace, "--compare", "queues", "others", "--nodes=10", "--seeds=2")
    first, chance, empty, facts, *_ = result.stdout.splitlines()
    assert first.startswith(
        "others: its jobs took 1.00 (1.00 to 1.00) of queues's time in the mean, which is no better;"
    )
    assert "95 % intervals over 2 seeds" in chance and empty == "" and facts.startswith("trace: ")


def test_an_empty_section_of_policies_is_the_preset_that_is_in_force(tmp_path: Path, trace: Path) -> None:
    config = tmp_path / "quicksilver.yaml"
    config.write_text("policies: {}\n")
    options = (trace, "--system=quicksilver", "--nodes=20", "--first=1", "--config", config, "--json", "--processes=1")
    found = json.loads(CliRunner().invoke(cli, ["simulate", *map(str, options)]).stdout)
    (label, row), *_ = found["variants"].items()
    assert label == "quicksilver preset=default" and row["settings"]["policies"] == {"preset": "default"}
