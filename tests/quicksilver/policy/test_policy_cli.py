"""`quicksilver policy`: what it prints and how it exits."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from policies.base import SLOTS
from policies.config.presets import PRESETS
from quicksilver.policy.cli import policy


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(policy, list(arguments))
    return done.exit_code, done.stdout, done.stderr


def test_list() -> None:
    code, out, _ = run("list", "--json")
    rows = json.loads(out)
    assert code == 0
    assert {row["slot"] for row in rows} == set(SLOTS)
    assert all(row["usable"] and row["package"].startswith("yarn-quicksilver ") for row in rows)
    code, out, _ = run("list", "--slot", "place")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()[1:]] == [
        "completion_time",
        "late",
        "least_queue",
        "random",
        "topk_wait",
        "variance",
    ]


def test_show_has_unit_default_range_and_source() -> None:
    code, out, _ = run("show", "topk_wait", "--json")
    assert code == 0
    [shown] = json.loads(out)
    assert shown["slot"] == "place"
    assert shown["settings"][0] == {
        "name": "k",
        "type": "int",
        "default": 50,
        "required": False,
        "unit": "nodes",
        "range": "1..",
        "doc": "Nodes to draw from; on 256 nodes 50 beat both 20 and 100.",
        "source": "Mercury §7.2.2, Fig. 6",
    }
    code, out, _ = run("show", "topk_wait")
    assert code == 0
    assert "locality_wait_s" in out and "Mercury §7.2.2" in out


def test_show_of_all() -> None:
    for row in json.loads(run("list", "--json")[1]):
        [shown] = json.loads(run("show", row["name"], "--slot", row["slot"], "--json")[1])
        for setting in shown["settings"]:
            assert setting["doc"] and setting["source"] and setting["type"]
            assert setting["default"] is not None
    [headroom] = json.loads(run("show", "by_framework", "--json")[1])
    assert headroom["settings"][0]["type"] == "dict[str, str]"
    assert headroom["settings"][0]["default"] == {"MAPREDUCE": "less_queueable", "TEZ": "at_least_next"}


def test_show_a_name_of_several_slots() -> None:
    assert [shown["slot"] for shown in json.loads(run("show", "none", "--json")[1])] == [
        "classify",
        "partition",
        "dispatch",
        "probe",
        "match",
        "fill",
        "preempt",
        "quota",
        "admit",
        "shed",
        "steal",
        "correct",
        "police",
        "promote",
    ]
    assert [shown["slot"] for shown in json.loads(run("show", "none", "--slot", "quota", "--json")[1])] == ["quota"]


def test_show_unknown() -> None:
    code, _, err = run("show", "topk_wiat")
    assert code == 1
    assert "unknown policy 'topk_wiat'; did you mean topk_wait?" in err


def test_check(tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    file.write_text("policies: {queues: batch, routes: [{policy: only_q}], preempt: {policy: las}}\n")
    assert run("check", str(file)) == (0, f"{file}: no mistakes\n", "")
    file.write_text("policies:\n  mode: of\n  place: {policy: topk}\n")
    code, out, err = run("check", str(file))
    assert (code, out) == (1, "")
    assert err.splitlines()[0].startswith(f"{file}:2:9: policies.mode: must be active, shadow or bypass, got 'of'")
    assert err.splitlines()[1].startswith(
        f"{file}:3:19: policies.place.policy: unknown place policy 'topk'; did you mean"
    )
    assert err.splitlines()[2] == f"{file}: 2 mistakes"
    code, out, _ = run("check", str(file), "--json")
    assert code == 1
    assert (json.loads(out)["ok"], len(json.loads(out)["mistakes"])) == (False, 2)


@pytest.mark.parametrize(
    ("settings", "place", "what"),
    [
        ("policies: {queues: a, routes: [{match: {type: MAPRED}, policy: only_g}]}", "1:47", "did you mean MAPREDUCE?"),
        ("policies: {estimate: {rules: [{match: {type: [TEZ, hive]}, expected_s: 5}]}}", "1:52", "did you mean TEZ or"),
        ("policies: {queues: a, routes: [{match: {type: SPARK}, policy: only_q}]}", "1:32", "Spark containers may be"),
        ("policies: {queues: a, routes: [{policy: hybrid_gq}]}", "1:32", "Spark and Flink containers may be queueable"),
        ("policies: {preset: mercury}", "1:20", "preempt: kill_newest kills these"),
        (
            "policies: {preset: apollo, preempt: {policy: none}, routes: [{match: {type: TEZ}, policy: only_q}]}",
            "1:62",
            "place: completion_time lets them wait at nodes",
        ),
        (
            "policies: {preset: default, alternatives: {b: {place: {policy: topk_wait},"
            " routes: [{match: {type: 't*'}, policy: hybrid_gq}]}}, shadow: [b]}",
            "1:85",
            "place: topk_wait lets them wait at nodes",
        ),
        ("policies: {alternatives: {b: {queues: a, routes: [{policy: only_q}]}}, shadow: [b]}", "1:51", "kill_newest"),
        ("proxy: {upstream: 'rm:18030', rest_listen: '0.0.0.0:8390'}", "1:44", "`quicksilver proxy run` refuses it"),
        ("sidecar: {rest_listen: '0.0.0.0:8391'}", "1:24", "`quicksilver sidecar run` refuses it"),
        ("proxy: {round_s: 2}", "1:1", "neither upstream nor rm_conf_dir is set"),
        ("security: {token_file: /nowhere/tokens}", "1:24", "/nowhere/tokens is not on this host"),
        ("sidecar: {}\nsecurity: {tls_ca: /}", "2:20", "no daemon starts"),
    ],
)
def test_check_warns(settings: str, place: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    file.write_text(f"{settings}\n")
    code, out, err = run("check", str(file))
    assert code == 0 and f"{file}: no mistakes, 1 warning\n" in out
    [line] = err.splitlines()
    assert line.startswith(f"warning: {file}:{place}: ") and what in line
    found = json.loads(run("check", str(file), "--json")[1])
    assert found["ok"] and found["warnings"] == [line.removeprefix("warning: ")]


@pytest.mark.parametrize(
    "settings",
    [
        "policies: {queues: a, routes: [{match: {type: [mapreduce, 'SP*']}, policy: only_g}]}",
        "policies: {queues: a, routes: [{match: {type: [SPARK, '*FLINK']}, policy: only_g}, {policy: only_q}]}",
        "policies: {queues: a, routes: [{match: {type: TEZ}, policy: only_q}], place: {policy: late}}",
        "policies: {preset: mixed, routes: [{match: {type: TEZ}, policy: only_q}]}",
        "policies: {preset: mercury, preempt: {policy: none}, routes: [{match: {type: TEZ}, policy: only_g}]}",
        "policies: {preset: default}",
        "policies: {preset: stock}",
        "proxy: {upstream: 'rm:18030', rest_listen: '127.0.0.1:8390'}",
        "proxy: {upstream: 'rm:18030', rest_listen: '0.0.0.0:8390'}\nsecurity: {insecure: true}",
    ],
)
def test_check_does_not_warn(settings: str, tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    file.write_text(f"{settings}\n")
    code, _, err = run("check", str(file))
    assert (code, err) == (0, "")


def test_warnings_come_beside_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    file.write_text("policies: {mode: of, routes: [{match: {type: MAPRED}, policy: only_g}]}\n")
    code, _, err = run("check", str(file))
    assert code == 1 and err.endswith(f"{file}: 1 mistake, 1 warning\n") and "MAPREDUCE" in err


def test_presets_say_what_they_are_good_and_bad_for() -> None:
    code, out, _ = run("presets")
    assert code == 0
    assert out.startswith("default: ") and out.count("  good for: ") == out.count("  bad for: ") == len(PRESETS)
    code, out, _ = run("presets", "--json")
    shown = json.loads(out)
    assert code == 0 and list(shown) == list(PRESETS)
    assert all(set(one) == {"doc", "good_for", "bad_for", "section"} for one in shown.values())


def test_check_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QUICKSILVER_CONFIG", raising=False)
    monkeypatch.setattr("quicksilver.common.settings.settings_file.SYSTEM_WIDE", tmp_path / "none")
    code, out, _ = run("check")
    assert code == 0
    assert "the defaults hold: no mistakes" in out
