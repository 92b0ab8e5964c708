"""Commands about descriptions; `quicksilver app` has them: check, render, schema, import-zapp."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import click
from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from quicksilver.common.command_line.groups import Command
from quicksilver.common.errors import QuicksilverError
from quicksilver_apps.description.mistakes import DescriptionError
from quicksilver_apps.description.model import as_json
from quicksilver_apps.description.reader import CheckResult, load
from quicksilver_apps.description.schema import schema
from quicksilver_apps.description.templates import command_line_values, escape
from quicksilver_apps.description.zapp import ImportedZapp, import_zapp

_DESCRIPTION = click.argument("file", type=click.Path(path_type=Path))
set_option = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="A value for a parameter of the description; repeatable.",
)


@click.command("check", cls=Command)
@_DESCRIPTION
@set_option
@click.option("--json", "as_json_", is_flag=True, help="Print JSON.")
def check(file: Path, assignments: Sequence[str], as_json_: bool) -> None:
    """Check the description in FILE (YAML or JSON): one line for each mistake; exit code 1 when there is one.

    Parameters without a value are no mistake here; what depends on them is checked when it is submitted.
    """
    values = command_line_values(assignments)
    try:
        checked = load(file).check(values)
    except DescriptionError as unreadable:
        checked = CheckResult(unreadable, (), ())
    error, warnings, to_give = checked.error, checked.warnings, checked.to_give
    mistakes = error.lines if error is not None else ()
    if as_json_:
        data = {"file": str(file), "ok": error is None, "mistakes": list(mistakes), "warnings": list(warnings)}
        click.echo(json.dumps(data | {"parameters_to_give": list(to_give)}, indent=2))
    else:
        for line in (*mistakes, *(f"warning: {line}" for line in warnings)):
            click.echo(line, err=True)
        if error is None:
            needs = f"; submit it with {' '.join(f'--set {name}=..' for name in to_give)}" if to_give else ""
            click.echo(f"{file}: OK{needs}")
    if error is not None:
        raise click.exceptions.Exit(1)


@click.command("render", cls=Command)
@_DESCRIPTION
@set_option
@click.option("--json", "as_json_", is_flag=True, help="Print JSON instead of YAML.")
def render(file: Path, assignments: Sequence[str], as_json_: bool) -> None:
    """Print the description in FILE with its parameters filled in, without what is as by default."""
    data = escape(as_json(load(file).fill(command_line_values(assignments))))
    click.echo(json.dumps(data, indent=2) if as_json_ else as_yaml(data), nl=as_json_)


@click.command("schema", cls=Command)
def print_schema() -> None:
    """Print the JSON schema of descriptions, for editors."""
    click.echo(json.dumps(schema(), indent=1))


@click.command("import-zapp", cls=Command)
@_DESCRIPTION
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file; .json: JSON."
)
def import_zapp_command(file: Path, output: Path | None) -> None:
    """Make a description of the ZApp in FILE (Zoe's format, versions 1 to 3).

    Warnings name what is not carried over.
    """
    imported = import_zapp(file)
    for line in imported.warnings:
        click.echo(f"warning: {file}: {line}", err=True)
    if output is None:
        click.echo(_with_comments(imported, file.name), nl=False)
        return
    text = json.dumps(imported.data, indent=2) + "\n"
    if output.suffix != ".json":
        text = _with_comments(imported, file.name)
    try:
        output.write_text(text)
    except OSError as error:
        why = error.strerror or str(error)
        raise QuicksilverError(f"cannot be written: {why}", place=str(output), remedy="name another file") from error
    click.echo(f"{output}: written")


COMMANDS = (check, render, print_schema, import_zapp_command)
"""For the group `quicksilver app`."""


class _Representer(SafeRepresenter):
    """Writes text with control characters in double quotes, where they have escapes."""

    def represent_str(self, data: str) -> ScalarNode:
        """Return the node of a text."""
        style = None if data.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Representer.add_representer(str, _Representer.represent_str)


def as_yaml(data: dict[str, Any]) -> str:
    """Return data as YAML with its keys in their order, one a line."""
    writer, text = YAML(typ="safe", pure=True), StringIO()
    writer.Representer = _Representer
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.width = 10_000
    writer.dump(data, text)
    return text.getvalue()


def _with_comments(imported: ImportedZapp, name: str) -> str:
    lines = [f"# Made of the ZApp {name}."]
    lines += [f"# {line}" for line in imported.warnings]
    return "\n".join(lines) + "\n" + as_yaml(imported.data)
