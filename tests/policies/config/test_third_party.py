"""A package that knows quicksilver only as a library offers a policy, and it works by its name."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from policies.config.policy_set import Policies
from policies.config.registry import Registry
from policies.model import AppView, Ask, Kind, Resources
from policies.waiting import WaitingApp
from quicksilver.common.settings.settings_file import SettingsFileError, load_settings
from quicksilver.policy_cli import policy

FILE = """\
policies:
  queues: [batch]
  routes:
    - policy: tagged_q
      settings: {tag: TAG}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "third_party"
    package = Path(__file__).parent / "third_party"
    for file in package.rglob("*"):
        if file.suffix in (".py", ".toml"):
            (source / file.relative_to(package)).parent.mkdir(parents=True, exist_ok=True)
            (source / file.relative_to(package)).write_bytes(file.read_bytes())
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-q"]
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return target


def test_unknown_before_it_is_installed() -> None:
    assert "tagged_q" not in Registry().names("route")


def test_is_found_used_and_shown_by_name(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(installed))
    file = tmp_path / "quicksilver.yaml"
    file.write_text(FILE.replace("TAG", "late"))
    policies = load_settings(file).policies()
    tagged = Ask(AppView("application_1_1", queue="batch", tags=frozenset({"late"})), 1, Resources(1024, 1))
    assert policies.route(tagged, Random(1)).kind is Kind.QUEUEABLE
    plain = Ask(AppView("application_1_2", queue="batch"), 1, Resources(1024, 1))
    assert policies.route(plain, Random(1)).kind is Kind.GUARANTEED
    assert "tagged_q: lacks the tag late" in policies.route(plain, Random(1)).reason

    shown = CliRunner().invoke(policy, ["show", "tagged_q", "--json"])
    assert shown.exit_code == 0
    [one] = json.loads(shown.output)
    assert one["package"] == "night-shift 1.2.3"
    assert one["settings"][0]["default"] == "night"
    assert one["settings"][0]["source"] == "the night shift"


def test_an_order_of_applications_is_found_and_used(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(installed))
    policies = Policies.load({"dispatch": {"policy": "night_first", "settings": {"user": "owl"}}}, Registry())
    keys = {
        user: policies.cluster.dispatch_key(WaitingApp(AppView("a", user=user, submitted_s=7.0), 3), 9.0)
        for user in ("owl", "lark")
    }
    assert keys == {"owl": (0.0, 7.0), "lark": (1.0, 7.0)}


def test_its_settings_are_checked_too(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(installed))
    file = tmp_path / "quicksilver.yaml"
    file.write_text(FILE.replace("TAG", "7"))
    with pytest.raises(SettingsFileError) as caught:
        load_settings(file).policies()
    assert str(caught.value) == (
        f"{file}:5:23: policies.routes[0].settings.tag: must be text (quote it), got 7 "
        "(tagged_q: tag of the applications whose tasks are queueable)"
    )
