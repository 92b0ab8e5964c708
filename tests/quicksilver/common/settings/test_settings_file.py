"""quicksilver.yaml: every mistake with its line and column, and a remedy."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from policies.base import SLOTS
from policies.config.registry import Registry
from policies.model import AppView, Ask, Kind, Resources
from quicksilver.common.settings.settings_file import (
    Checked,
    SettingsFileError,
    check_settings,
    find_settings,
    load_settings,
    parse_settings,
    read_settings,
)
from tests.examples import of_share
from tests.paths import DOCS

REGISTRY = Registry()
FILE = Path("quicksilver.yaml")


class Proxy(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    listen: str = "127.0.0.1:8030"
    """Address to listen at; host and port."""
    round_s: float = Field(1.0, gt=0)
    """Time between two rounds."""


def lines(text: str) -> list[str]:
    with pytest.raises(SettingsFileError) as caught:
        parse_settings(text, FILE).policies(REGISTRY)
    return list(caught.value.lines)


def test_mistakes_have_line_column_and_remedy_in_the_order_of_the_file() -> None:
    text = """\
# what may be queueable
policies:
  queues: [root.batch]
  routes:
    - match: {type: MAPREDUCE, prio: 20}
      policy: hybrid_qg
    - policy: hybrid_gq
      settings:
        td_s: ten
  retries: 3
  place:
    policy: topk_wait
    settings: {locality_wait_s: 1, k: 0}
  order: {}
"""
    assert lines(text) == [
        "quicksilver.yaml:5:32: policies.routes[0].match.prio: unknown setting; did you mean priority? "
        "known: queue, user, type, name, tag, priority, progress",
        "quicksilver.yaml:6:15: policies.routes[0].policy: unknown route policy 'hybrid_qg'; did you mean hybrid_gq? "
        "known: hybrid_gq, only_g, only_q",
        "quicksilver.yaml:9:15: policies.routes[1].settings.td_s: must be a number, got 'ten' "
        "(hybrid_gq: tasks expected to run no longer than this may be queueable, 0..)",
        "quicksilver.yaml:10:3: policies.retries: unknown setting; did you mean retries_to_g or routes?",
        "quicksilver.yaml:13:39: policies.place.settings.k: must be >= 1, got 0 (topk_wait: nodes to draw from, 1..)",
        "quicksilver.yaml:14:3: policies.order.policy: is missing "
        "(name of the policy (`quicksilver policy list` shows all))",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("policies:\n\tqueues: []\n", "2:1: a tab indents this line; YAML takes only spaces"),
        (
            "policies:\n  mode: active\n  mode: bypass\n",
            "3:3: policies.mode: is there twice, first in line 2; keep one",
        ),
        ("policies: {}\nproxy: {}\npolicies: {}", "3:1: policies: is there twice, first in line 1; keep one"),
        ("polices: {}\n", "1:1: polices: unknown section; did you mean policies? "),
        ("- policies\n", "1:1: must be a mapping with the keys policies, proxy, sidecar, tracker, app_server"),
        ("proxy: 3\n", "1:8: proxy: must be a mapping (key: value), got 3"),
        ("hadoop_conf_dir: [a]\n", '1:18: hadoop_conf_dir: must be a directory, got ["a"]'),
        ("policies: [\n", "2:1: is no YAML: while parsing a flow"),
        ("policies: *nobody\n", "1:11: is no YAML: found undefined alias 'nobody'"),
        ("a: 1\n---\nb: 1\n", "2:1: is no YAML: expected a single document"),
        ("policies: {? [a] : 1}\n", "1:11: policies: a key must be plain text"),
        ("policies: !!python/object:os.system {}\n", "1:11: is no YAML: could not determine a constructor"),
        ("policies:\n  retries_to_g: !!int x\n", "2:17: policies.retries_to_g: 'x' cannot be read"),
        ("policies:\n  retries_to_g: !!int\n", "2:17: policies.retries_to_g: '' cannot be read"),
        ("policies:\n  mode: 2026-13-45\n", "2:9: policies.mode: '2026-13-45' cannot be read"),
    ],
)
def test_one_mistake(text: str, line: str) -> None:
    [found] = lines(text)
    assert found.startswith(f"quicksilver.yaml:{line}")


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing but a remark\n"])
def test_an_empty_file_is_a_mistake(text: str) -> None:
    assert lines(text)[0].startswith(
        "quicksilver.yaml:1:1: is empty, as after an interrupted write; write `policies: {}`"
    )


def test_all_mistakes_of_a_file_come_in_one_run(tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    file.write_text(
        "policies:\n"
        "  mode: of\n"
        "  time_zone: Mars/City\n"
        "  windows:\n"
        "    - {name: a, cron: '99 * * * *', length_s: 60, use: nope}\n"
        "    - {name: a, cron: '0 0 * * *', length_s: 60, use: nope}\n"
        "  rollout: [{use: nope}]\n"
        "  shadow: [zap, zap]\n"
        "  routes: [{policy: only_qq}]\n"
        "  mode: active\n"
        "proxy: {round_s: !!int x, lisen: here}\n"
    )
    found = [line.removeprefix(f"{file}:").split(": ")[:2] for line in check_settings(file, {"proxy": Proxy}).mistakes]
    assert found == [
        ["2:9", "policies.mode"],
        ["3:14", "policies.time_zone"],
        ["5:23", "policies.windows[0].cron"],
        ["5:56", "policies.windows[0].use"],
        ["6:14", "policies.windows[1].name"],
        ["6:55", "policies.windows[1].use"],
        ["7:19", "policies.rollout[0].use"],
        ["8:12", "policies.shadow[0]"],
        ["8:17", "policies.shadow[1]"],
        ["8:17", "policies.shadow[1]"],
        ["9:21", "policies.routes[0].policy"],
        ["10:3", "policies.mode"],
        ["11:18", "proxy.round_s"],
        ["11:27", "proxy.lisen"],
    ]


def test_an_alias_of_itself_or_of_too_much_ends() -> None:
    assert "is an alias used in itself?" in lines("policies: &a\n  x: *a\n")[0]
    bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    assert "holds more than 50000 values" in lines(bomb)[0]


def test_merged_mappings_keep_their_positions() -> None:
    text = "policies:\n  place:\n    policy: topk_wait\n    settings:\n      <<: {k: 0}\n      max_ratio: 1\n"
    assert lines(text)[0].startswith("quicksilver.yaml:5:15: policies.place.settings.k: must be >= 1, got 0")


def test_a_section_by_its_model() -> None:
    file = parse_settings("proxy:\n  round_s: 0\n  lisen: here\nhadoop_conf_dir: /etc/hadoop/conf\n", FILE)
    assert file.hadoop_conf_dir == Path("/etc/hadoop/conf")
    with pytest.raises(SettingsFileError) as caught:
        file.section("proxy", Proxy)
    assert caught.value.lines == (
        "quicksilver.yaml:2:12: proxy.round_s: must be > 0, got 0 (time between two rounds, > 0)",
        "quicksilver.yaml:3:3: proxy.lisen: unknown setting; did you mean listen? known: listen, round_s",
    )
    assert parse_settings("proxy: {listen: a}", FILE).section("proxy", Proxy) == Proxy(listen="a")
    assert parse_settings("policies:", FILE).section("proxy", Proxy) == Proxy()


def test_positions() -> None:
    file = parse_settings("policies:\n  queues:\n    - a\n    - b\n", FILE)
    at = file.positions[("policies", "queues", 1)]
    assert (at.value.line, at.value.column) == (4, 7)


def test_where_the_file_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QUICKSILVER_CONFIG", raising=False)
    monkeypatch.setattr("quicksilver.common.settings.settings_file.SYSTEM_WIDE", tmp_path / "etc" / "quicksilver.yaml")
    assert find_settings() is None
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "quicksilver.yaml").write_text("policies: {queues: a}")
    assert load_settings().data == {"policies": {"queues": "a"}}
    (tmp_path / "quicksilver.yaml").write_text("policies: {queues: b}")
    assert load_settings().data == {"policies": {"queues": "b"}}
    monkeypatch.setenv("QUICKSILVER_CONFIG", str(tmp_path / "named.yaml"))
    with pytest.raises(SettingsFileError, match=r"named\.yaml: No such file or directory; name a settings file"):
        load_settings()


def test_no_file_means_the_default_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QUICKSILVER_CONFIG", raising=False)
    monkeypatch.setattr("quicksilver.common.settings.settings_file.SYSTEM_WIDE", tmp_path / "none")
    file = load_settings()
    assert (file.path, file.hadoop_conf_dir) == (None, None)
    policies = file.policies(REGISTRY)
    assert policies.section.preset == "default", "an admin who sets nothing gets what needs no tuning"
    assert policies.route(Ask(AppView("a", type="MAPREDUCE"), 20, Resources(1, 1)), Random(1)).kind is Kind.QUEUEABLE


@pytest.mark.parametrize(
    ("text", "preset"),
    [
        ("policies:\n", "default"),
        ("policies: {}\nproxy: {upstream: 'rm:18030'}\n", "default"),
        ("policies: {preset: stock}\n", "stock"),
        ("policies: {queues: []}\n", None),
    ],
)
def test_an_empty_section_is_the_default_preset(text: str, preset: str | None, tmp_path: Path) -> None:
    path = tmp_path / "quicksilver.yaml"
    path.write_text(text)
    assert parse_settings(text, path).policies(REGISTRY).section.preset == preset
    assert read_settings(path, {}, REGISTRY).policies.section.preset == preset


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsFileError, match="Is a directory"):
        load_settings(tmp_path)
    (tmp_path / "latin").write_bytes(b"policies:\n  queues: [\xe9t\xe9]\n")
    with pytest.raises(SettingsFileError, match=r"latin:2:1: is not UTF-8 text"):
        load_settings(tmp_path / "latin")
    (tmp_path / "big").write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(SettingsFileError, match="is larger than 1048576 bytes"):
        load_settings(tmp_path / "big")


def test_check_finds_the_mistakes_of_all_sections(tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    file.write_text("policies: {mode: of}\nproxy: {round_s: -1}\nsidcar: {}\n")
    checked = check_settings(file, {"proxy": Proxy}, REGISTRY)
    assert checked.path == file
    assert [line.removeprefix(f"{file}:").split(": ")[0] for line in checked.mistakes] == ["1:18", "2:18", "3:1"]
    assert checked.notes == []
    file.write_text("policies: {queues: a}\n")
    notes = ["queues are listed, but routes is empty: every container stays guaranteed"]
    assert check_settings(file, registry=REGISTRY) == Checked(file, [], [], notes)


words = [
    "policies",
    "proxy",
    ":",
    " ",
    "\n",
    "  ",
    "\t",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "'",
    '"',
    "&a ",
    "*a",
    "<<",
    "!!int ",
    "1",
    "k",
    "#",
    "?",
    "|",
    "\x00",
    "é",
    ".inf",
    "~",
]


@settings(deadline=None, max_examples=of_share(300))
@given(st.lists(st.sampled_from(words), max_size=25).map("".join) | st.text(max_size=40))
def test_any_text_is_read_or_explained(text: str) -> None:
    try:
        parse_settings(text, FILE).policies(REGISTRY)
    except SettingsFileError as error:
        assert error.lines
        assert all(line.startswith("quicksilver.yaml:") and "\n" not in line for line in error.lines)


def test_the_example_of_the_documentation_is_right(tmp_path: Path) -> None:
    page = (DOCS / "policies.md").read_text()
    file = tmp_path / "quicksilver.yaml"
    file.write_text(page.split("```yaml\n")[1].split("```")[0])
    assert check_settings(file, registry=REGISTRY) == Checked(file, [], [], [])


def test_every_policy_and_setting_is_documented() -> None:
    page, settings = (DOCS / "policies.md").read_text(), (DOCS / "settings.md").read_text()
    for slot in SLOTS:
        part = page.split(f"\n## {slot}\n")[1].split("\n## ")[0]
        assert f"\nSettings: [slot `{slot}`](settings.md#slot-{slot}" in part
        reference = settings.split(f"\n### Slot `{slot}`")[1].split("\n### ")[0]
        for name in REGISTRY.names(slot):
            assert f"**`{name}`**" in part
            rows = reference.split(f"\n**`{name}`**")[1].split("\n**")[0]
            fields = REGISTRY.get(slot, name).config.model_fields
            assert all(f"\n| `{setting}` |" in rows for setting in fields)
