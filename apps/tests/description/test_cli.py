"""The commands: check, render, schema, import-zapp."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from apps.tests.description.examples import SPARK
from apps.tests.description.test_zapp import service3, zapp3
from quicksilver.common.command_line.groups import CommandGroup
from quicksilver.common.errors import QuicksilverError
from quicksilver_apps.description import cli
from quicksilver_apps.description.reader import parse, read

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what runs a command in a folder with `app.yaml`."""
    monkeypatch.chdir(tmp_path)
    Path("app.yaml").write_text(SPARK)
    group = click.group(cls=CommandGroup)(lambda: None)
    for command in cli.COMMANDS:
        group.add_command(command)
    return lambda *args: CliRunner().invoke(group, args)


def test_check_says_ok_and_what_to_give(run: Run) -> None:
    done = run("check", "app.yaml")
    assert (done.exit_code, done.output) == (0, "app.yaml: OK; submit it with --set input=..\n")
    assert run("check", "app.yaml", "--set", "input=x").output == "app.yaml: OK\n"


def test_check_prints_each_mistake_and_fails(run: Run) -> None:
    Path("app.yaml").write_text(SPARK.replace("priority: 3", "prioritty: 3").replace("port: rpc", "port: rcp"))
    done = run("check", "app.yaml")
    assert done.exit_code == 1 and done.stdout == ""
    assert [line.split(": ")[0] for line in done.stderr.splitlines()] == ["app.yaml:6", "app.yaml:28"]
    data = json.loads(run("check", "app.yaml", "--json").stdout)
    assert data["ok"] is False and len(data["mistakes"]) == 2 and data["parameters_to_give"] == ["input"]


def test_check_of_a_file_that_is_not_there_or_is_no_yaml_fails(run: Run) -> None:
    done = run("check", "gone.yaml")
    assert (done.exit_code, done.stderr) == (
        1,
        "gone.yaml: cannot be read: No such file or directory; name a file that can be read\n",
    )
    Path("app.yaml").write_text("a: [")
    assert json.loads(run("check", "app.yaml", "--json").stdout)["ok"] is False


def test_check_warns_of_a_parameter_without_use(run: Run) -> None:
    Path("app.yaml").write_text(SPARK.replace("parameters:", "parameters:\n  idle: {default: x}"))
    done = run("check", "app.yaml")
    assert done.exit_code == 0
    assert done.stderr == "warning: app.yaml: parameters.idle: no ${parameters.idle} refers to it; remove it\n"


def test_render_prints_a_description_that_is_read_as_the_same_application(run: Run) -> None:
    expected = parse(SPARK, "app.yaml", {"input": "${parameters.x}", "workers": 9})
    for options in ((), ("--json",)):
        done = run("render", "app.yaml", "--set", "input=${parameters.x}", "--set", "workers=9", *options)
        assert done.exit_code == 0
        assert parse(done.stdout, "app.json" if options else "out.yaml") == expected


def test_render_without_a_value_is_an_error(run: Run) -> None:
    done = run("render", "app.yaml")
    assert isinstance(done.exception, QuicksilverError)
    assert str(done.exception).startswith("app.yaml:11: parameters.input: has no value")


def test_schema_is_json(run: Run) -> None:
    assert json.loads(run("schema").stdout)["title"] == "Application"


def test_import_zapp_writes_yaml_or_json_and_warns(run: Run) -> None:
    Path("zapp.json").write_text(json.dumps(zapp3(service3("a"), size=7)))
    printed = run("import-zapp", "zapp.json")
    assert printed.exit_code == 0 and "warning: zapp.json: size: is not carried over\n" in printed.stderr
    assert "# size: is not carried over\n" in printed.stdout
    for name in ("new.yaml", "new.json"):
        done = run("import-zapp", "zapp.json", "-o", name)
        assert done.stdout == f"{name}: written\n"
        assert read(name) == parse(printed.stdout, "printed.yaml")
    done = run("import-zapp", "zapp.json", "-o", "no/such/folder.yaml")
    assert str(done.exception) == "no/such/folder.yaml: cannot be written: No such file or directory; name another file"
