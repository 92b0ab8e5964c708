"""The group `quicksilver app`: the proxy's commands and those that run described applications."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from quicksilver.cli import cli


def test_all_commands_are_listed() -> None:
    shown = CliRunner().invoke(cli, ["app", "--help"]).output
    names = ("list", "show", "run", "submit", "services", "logs", "scale", "wait", "kill", "clean", "check", "schema")
    for name in (*names, "render", "import-zapp"):
        assert f"\n  {name} " in shown, shown


def test_a_proxy_command_is_the_proxys() -> None:
    assert "--state" in CliRunner().invoke(cli, ["app", "list", "--help"]).output


@pytest.mark.parametrize(("typed", "meant"), [("stop", "app kill"), ("submitt", "app submit"), ("log", "app logs")])
def test_habits_are_known(typed: str, meant: str) -> None:
    assert f"`quicksilver {meant}`" in CliRunner().invoke(cli, ["app", typed], prog_name="quicksilver").output


def test_an_id_is_checked_before_anything_is_asked() -> None:
    result = CliRunner().invoke(cli, ["app", "kill", "7"])
    assert result.exit_code == 2 and "'7' is no id of an application" in result.output


def test_missing_site_files_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/nowhere")
    result = CliRunner().invoke(cli, ["app", "wait", "application_1_0001"])
    assert result.exit_code == 1 and "/nowhere: no such directory; set HADOOP_CONF_DIR" in result.output
