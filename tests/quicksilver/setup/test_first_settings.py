"""`policy new`, `policy what-if` and `init`: a first settings file, and what it would decide."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from policies.config.presets import NAMES, PRESETS
from quicksilver.cli import cli
from quicksilver.common.settings.settings_file import check_settings
from quicksilver.policy.goals import GOALS, settings_for
from quicksilver.policy.schema import SECTIONS

NAME = "<property><name>{}</name><value>{}</value></property>"


def call(*arguments: str | Path, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments], input=stdin, prog_name="quicksilver")


def site(folder: Path, **files: dict[str, str]) -> Path:
    """Write site files; `yarn_site={"name": "value"}` is yarn-site.xml."""
    folder.mkdir(exist_ok=True)
    for file, properties in files.items():
        text = "".join(NAME.format(name, value) for name, value in properties.items())
        (folder / f"{file.replace('_', '-')}.xml").write_text(f"<configuration>{text}</configuration>")
    return folder


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return site(
        tmp_path / "conf",
        yarn_site={"yarn.resourcemanager.hostname": "rmhost"},
        capacity_scheduler={"yarn.scheduler.capacity.root.queues": "prod,batch"},
    )


@pytest.mark.parametrize("goal", [*GOALS, *NAMES])
@pytest.mark.parametrize("queues", [["*"], ["root.a", "root.b"]])
def test_what_is_written_for_a_goal_has_neither_mistakes_nor_warnings(
    goal: str, queues: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "quicksilver.yaml"
    file.write_text(settings_for(goal, queues))
    found = check_settings(file, SECTIONS)
    allowed = ("mercury", "hawk", "eagle", "apollo", "opportunistic") if goal not in GOALS else ()
    assert (found.mistakes, found.notes) == ([], [])
    assert found.warnings == [] or goal in allowed, "these presets kill Spark's containers; their goals do not"


@pytest.mark.parametrize("goal", ["short-jobs-one-queue", "kill-free", "long-guaranteed", "spark-executors", "by-night",
                                  "try-10-percent", "watch-only"])  # fmt: skip
def test_goals_that_change_what_a_preset_is_for_have_advice_of_their_own(goal: str) -> None:
    """The advice of the default preset is to keep Spark guaranteed, which is wrong above routes that do not."""
    advice = " ".join(settings_for(goal, ["*"]).partition("policies:")[0].replace("#", "").split())
    chosen, preset = GOALS[goal], next(one for name, one in PRESETS.items() if name == GOALS[goal].preset)
    assert preset.good_for not in advice and preset.bad_for not in advice
    assert chosen.good_for and chosen.good_for in advice and chosen.bad_for and chosen.bad_for in advice


@pytest.mark.parametrize("day", range(23, 30))
def test_by_night_is_each_night_and_says_so(day: int, tmp_path: Path) -> None:
    assert "every night, 20:00 to 6:00" in GOALS["by-night"].summary
    file = tmp_path / "quicksilver.yaml"
    file.write_text(settings_for("by-night", ["*"]) + "  time_zone: UTC\n")
    night = call("policy", "what-if", "--file", file, "--queue", "root.a", "--at", f"2026-11-{day}T21:00").output
    assert "open: night" in night
    by_day = call("policy", "what-if", "--file", file, "--queue", "root.a", "--at", f"2026-11-{day}T12:00").output
    assert "none is open" in by_day


def test_goals_are_listed_and_an_unknown_one_is_guessed(tmp_path: Path) -> None:
    listed = call("policy", "new").output
    assert all(f"{goal} " in listed for goal in GOALS)
    wrong = call("policy", "new", "--goal", "kilfree")
    assert wrong.exit_code == 2 and "unknown goal 'kilfree'; did you mean kill-free?" in wrong.stderr
    file = tmp_path / "q.yaml"
    assert call("policy", "new", "--goal", "by-night", "--out", file).exit_code == 0
    again = call("policy", "new", "--goal", "off", "--out", file)
    assert again.exit_code == 1 and "is there already; name another file" in again.stderr
    assert "windows:" in file.read_text()


@pytest.mark.parametrize(
    ("goal", "options", "shown"),
    [
        ("short-jobs", (), ["queueable (Q): rule 1", "level 0 (0 to 20 s", "containers of MAPREDUCE: shrink"]),
        ("short-jobs", ("--open", "600"), ["600 task-seconds of open work: level 3"]),
        ("short-jobs", ("--type", "SPARK"), ["guaranteed (G): no rule of policies.routes matches"]),
        ("short-jobs", ("--type", "yarn-service"), ["guaranteed (G): no rule of policies.routes matches"]),
        ("spark-executors", ("--type", "SPARK"), ["queueable (Q): rule 1", "containers of SPARK: none"]),
        ("by-night", ("--at", "2026-11-23T10:00"), ["guaranteed (G)", "none is open"]),
        ("by-night", ("--at", "2026-11-23T21:00"), ["queueable (Q), by alternative night", "open: night"]),
        (
            "by-night",
            ("--at", "2026-11-24T05:57", "--expected", "600"),
            ["G), by alternative night: window night ends in 180 s"],
        ),
        ("by-night", ("--at", "2026-11-24T05:57", "--expected", "60"), ["queueable (Q), by alternative night"]),
        ("try-10-percent", (), ["about 9 %: queueable (Q), by alternative try", "10 % of the applications"]),
        ("try-10-percent", ("--app", "application_1_0001"), ["guaranteed (G)", "application_1_0001 is not drawn"]),
        ("long-guaranteed", ("--expected", "5"), ["about 72 %: queueable (Q)", "about 28 %: guaranteed (G)"]),
        (
            "long-guaranteed",
            ("--expected", "50"),
            ["guaranteed (G): rule 1 (type MAPREDUCE): hybrid_gq: expected 50 s"],
        ),
        ("watch-only", (), ["mode shadow: recorded, not done"]),
        ("off", (), ["guaranteed (G): queue root.prod is not listed"]),
    ],
)
def test_what_if(goal: str, options: tuple[str, ...], shown: list[str], tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    file.write_text(settings_for(goal, ["*"]) + "  time_zone: UTC\n")
    result = call("policy", "what-if", "--file", file, "--queue", "prod", *options)
    assert result.exit_code == 0, result.output
    for text in shown:
        assert text in result.output, result.output
    found = json.loads(call("policy", "what-if", "--file", file, "--queue", "prod", *options, "--json").output)
    assert sum(outcome["percent"] for outcome in found["outcomes"]) == pytest.approx(100)


def test_what_if_of_wrong_settings_is_their_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    file.write_text("policies: {mode: of, place: {policy: topk}}\n")
    result = call("policy", "what-if", "--file", file, "--queue", "prod")
    assert result.exit_code == 1 and result.stderr.count("quicksilver: error:") == 2


def test_init_without_questions_writes_what_the_check_accepts(conf: Path, tmp_path: Path) -> None:
    out = tmp_path / "etc" / "quicksilver.yaml"
    options = ("--conf-dir", conf, "--role", "resourcemanager", "--role", "nodemanager", "--queues", "batch")
    result = call("init", *options, "--yes", "--insecure", "--out", out)
    assert result.exit_code == 0, result.output
    found = check_settings(out, SECTIONS)
    assert (found.mistakes, found.warnings, found.notes) == ([], [], [])
    text = out.read_text()
    assert "  upstream: rmhost:18030 " in text and "  rest_listen: rmhost:8390 " in text and '["batch"]' in text
    assert f"quicksilver policy check {out}" in result.output and "restart the NodeManager" in result.output
    again = call("init", *options, "--yes", "--out", out)
    assert again.exit_code == 1 and "is there already; name another file with --out, or give --force" in again.stderr


def test_init_asks_for_what_the_options_do_not_say(conf: Path, tmp_path: Path) -> None:
    out = tmp_path / "quicksilver.yaml"
    result = call("init", "--conf-dir", conf, "--out", out, stdin="both\nrmhost:18031\nroot.prod\n")
    assert result.exit_code == 0, result.output
    assert "(root.batch, root.prod)" in result.output and "  upstream: rmhost:18031 " in out.read_text()
    assert '["root.prod"]' in out.read_text() and "/etc/quicksilver/tls/proxy.crt" in out.read_text()


@pytest.mark.parametrize(
    ("options", "code", "error"),
    [
        (("--queues", "bacth"), 2, "no queue of the scheduler's files is bacth; did you mean root.batch?"),
        (("--goal", "shortjobs"), 2, "unknown goal 'shortjobs'; did you mean short-jobs"),
        (("--conf-dir", "/nowhere"), 1, "/nowhere: no such directory; name the directory of the cluster's site files"),
        (("--upstream", "rmhost:x"), 1, "--upstream: "),
        (("--rol", "x"), 2, "Did you mean"),
    ],
)
def test_init_names_what_is_wrong(options: tuple[str, ...], code: int, error: str, conf: Path, tmp_path: Path) -> None:
    out = tmp_path / "quicksilver.yaml"
    result = call("init", "--role", "resourcemanager", "--conf-dir", conf, "--yes", "--out", out, *options)
    assert result.exit_code == code and error in result.stderr and not out.exists()


def test_init_with_high_availability_wants_to_know_which(tmp_path: Path) -> None:
    ha = {"yarn.resourcemanager.ha.enabled": "true", "yarn.resourcemanager.ha.rm-ids": "rm1,rm2"}
    hosts = {f"yarn.resourcemanager.hostname.{rm}": f"{rm}.example" for rm in ("rm1", "rm2")}
    conf = site(tmp_path / "ha", yarn_site=ha | hosts)
    out = tmp_path / "quicksilver.yaml"
    options = ("--conf-dir", conf, "--yes", "--role", "resourcemanager", "--out", out)
    assert "say which one is meant with --rm-id" in call("init", *options).stderr
    assert call("init", *options, "--rm-id", "rm2").exit_code == 0
    assert "  upstream: rm2.example:18030 " in out.read_text() and '  rm_id: "rm2"\n' in out.read_text()


def test_where_a_sidecar_listens_is_judged_by_the_files_of_a_node_alone(conf: Path, tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    file.write_text(f"hadoop_conf_dir: {conf}\nsidecar: {{vcores: 2}}\npolicies: {{}}\n")
    assert check_settings(file, SECTIONS).warnings == []  # clients' files: the sidecar has its own
    site(conf, yarn_site={"yarn.resourcemanager.hostname": "rmhost", "yarn.nodemanager.address": "0.0.0.0:45454"})
    assert check_settings(file, SECTIONS).warnings == []  # Ambari's file, the same on all hosts: no node's address
    site(conf, yarn_site={"yarn.resourcemanager.hostname": "rmhost", "yarn.nodemanager.address": "node1.example:8041"})
    (warning,) = check_settings(file, SECTIONS).warnings
    assert "rest_listen is not set, so REST would listen at node1.example:8391 without TLS" in str(warning)
