"""The JSON schema and the page of settings: both say what the models say."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from quicksilver.cli import cli
from quicksilver.common.settings.settings_file import SettingsFileError, parse_settings, read_settings
from quicksilver.policy.schema import SECTIONS, schema
from quicksilver.policy.settings_docs import settings_markdown
from tests.paths import DOCS

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is in requirements.lock: `make setup` installs it")
EXAMPLES = [
    block
    for page in ("policies.md", "operations.md", "sidecar.md", "tracker.md", "preemption.md", "security.md")
    for block in re.findall(r"```yaml\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    if re.match(r"(policies|proxy|sidecar|tracker|security|hadoop_conf_dir):", block)
]
RIGHT = [
    "policies: {queues: root.a, quota: [{policy: absolute}, {policy: none}]}",
    "policies: {routes: [{policy: hybrid_gq, match: {priority: [1, 2], queue: [a, b]}, settings: {td_s: 5}}]}",
    "policies: {routes: [{policy: only_q, match: {priority: {min: 3}}}], quota: {policy: none}}",
    "policies:\nproxy:\nhadoop_conf_dir: /etc/hadoop\n",
    "policies: {preempt: {policy: las, settings: {by_type: {SPARK: freeze}}}}",
    "policies: {alternatives: {night: {queues: '*', place: {policy: random}}}, shadow: [night], time_zone: UTC}",
    "proxy: {upstream: 'rmhost:18030', round_s: 2}\nsidecar: {count_vcores: false}\n",
]
WRONG = {
    "policies: {queus: []}": "policies",
    "policies: {place: {policy: topk_wait, settings: {k: 0}}}": "policies/place/settings/k",
    "policies: {place: {policy: topk}}": "policies/place/policy",
    "policies: {place: {policy: random, settings: {k: 3}}}": "policies/place/settings",
    "policies: {place: {settings: {}}}": "policies/place",
    "policies: {routes: [{policy: hybrid_gq, settings: {td_s: ten}}]}": "policies/routes/0/settings/td_s",
    "policies: {quota: [{policy: absolute, settings: {max_q: -1}}]}": "policies/quota/0/settings/max_q",
    "policies: {quota: []}": "policies/quota",
    "policies: {alternatives: {a: {ordre: {}}}}": "policies/alternatives/a",
    "policies: {alternatives: {'a b': {}}}": "policies/alternatives",
    "policies: {modes: [{mode: passive}]}": "policies/modes/0/mode",
    "policies: {windows: [{name: n, cron: '* * * * *', use: a, length_s: 0}]}": "policies/windows/0/length_s",
    "proxy: {round_s: 0}": "proxy/round_s",
    "proxi: {}": "",
    "- 1": "",
}


def mistakes(text: str) -> list[str]:
    found = jsonschema.Draft202012Validator(schema()).iter_errors(YAML(typ="safe").load(text))
    return ["/".join(map(str, error.absolute_path)) for error in found]


def accepted(text: str, path: Path) -> bool:
    path.write_text(text)
    try:
        read_settings(path, SECTIONS)
    except SettingsFileError:
        return False
    return True


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    references = set(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(schema())))
    assert references and references <= schema()["$defs"].keys()


@pytest.mark.parametrize("text", [*RIGHT, *EXAMPLES])
def test_what_the_daemons_take_is_right(text: str, tmp_path: Path) -> None:
    assert accepted(text, tmp_path / "quicksilver.yaml")
    assert mistakes(text) == []


@pytest.mark.parametrize(("text", "where"), WRONG.items())
def test_what_they_refuse_is_wrong_at_its_place(text: str, where: str, tmp_path: Path) -> None:
    assert not accepted(text, tmp_path / "quicksilver.yaml")
    assert where in mistakes(text)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3
    assert parse_settings(EXAMPLES[0], Path("x")).data


def test_units_and_sources_are_in_the_descriptions() -> None:
    found: dict[str, Any] = schema()
    cases = found["$defs"]["slot.preempt"]["allOf"]
    las = next(c["then"]["properties"]["settings"] for c in cases if c["if"]["properties"]["policy"]["const"] == "las")
    assert las["properties"]["quantum_s"]["description"].endswith(
        "Unit: s. Source: Kairos thesis §4.5.2, W; 10 to 100 s did as well."
    )


def test_the_command_prints_it() -> None:
    assert json.loads(CliRunner().invoke(cli, ["policy", "schema"]).output) == json.loads(json.dumps(schema()))


def test_the_page_of_settings_is_up_to_date() -> None:
    assert (DOCS / "settings.md").read_text() == settings_markdown() + "\n", (
        "run `quicksilver policy docs docs/settings.md`"
    )


def test_every_setting_has_a_meaning() -> None:
    rows = [line for line in settings_markdown().splitlines() if line.startswith("| `")]
    assert len(rows) > 150
    assert [row for row in rows if not row.replace("\\|", "/").split("|")[5].strip()] == []
