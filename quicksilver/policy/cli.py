"""`quicksilver policy`: which policies there are, what can be set, whether a settings file is right."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from policies.base import SLOTS
from policies.config.presets import DEFAULT, PRESETS
from policies.config.registry import Registry, doc_of, summary
from policies.config.validation import setting_rows
from policies.errors import PolicyError, close_to
from quicksilver.common.command_line.groups import CommandGroup
from quicksilver.common.settings.settings_file import FILE_NAME, SYSTEM_WIDE, VARIABLE, check_settings
from quicksilver.policy.goals import new_settings
from quicksilver.policy.live import compare, history, reload_settings
from quicksilver.policy.schema import SECTIONS, schema
from quicksilver.policy.settings_docs import settings_markdown
from quicksilver.policy.what_if_cli import what_if

_SLOTS = ", ".join(SLOTS)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(cls=CommandGroup)
def policy() -> None:
    """Check, try, write and reload the policies of quicksilver.yaml."""


policy.add_command(reload_settings)
policy.add_command(history)
policy.add_command(compare)
policy.add_command(new_settings)
policy.add_command(what_if)


@policy.command("list")
@click.option("--slot", type=click.Choice(SLOTS), metavar="SLOT", help=f"Only the policies for this choice: {_SLOTS}.")
@as_json
def list_policies(slot: str | None, as_json: bool) -> None:
    """List all policies of all installed packages, by slot."""
    registry = Registry()
    rows = []
    for at in [slot] if slot else SLOTS:
        for offer in registry.offers(at):
            doc, usable = summary(registry, offer)
            rows.append({"slot": at, "name": offer.name, "package": offer.package, "usable": usable, "doc": doc})
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    _print_table(
        ["slot", "name", "package", "what it does"], [[r["slot"], r["name"], r["package"], r["doc"]] for r in rows]
    )


@policy.command("show")
@click.argument("name")
@click.option("--slot", type=click.Choice(SLOTS), metavar="SLOT", help="When the name stands for several choices.")
@as_json
def show_policy(name: str, slot: str | None, as_json: bool) -> None:
    """Show a policy and its settings: unit, default, range, what it means, where it comes from."""
    registry = Registry()
    slots = [slot] if slot else [at for at in SLOTS if name in registry.names(at)]
    if not slots:
        known = sorted({known for at in SLOTS for known in registry.names(at)})
        raise click.ClickException(f"unknown policy '{name}'; {close_to(name, known)}")
    try:
        shown = [_shown(registry, at, name) for at in slots]
    except PolicyError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps(shown, indent=2))
        return
    for entry in shown:
        click.echo(f"{entry['slot']} policy {entry['name']}, package {entry['package']}\n{entry['doc']}")
        rows = [_cells(row) for row in entry["settings"]]
        if rows:
            _print_table(["setting", "type", "unit", "default", "range", "meaning", "source"], rows)
        else:
            click.echo("It has no settings.")


@policy.command("presets")
@as_json
def list_presets(as_json: bool) -> None:
    """Show the presets (policies: {preset: NAME}): what each is good and bad for, and its settings."""
    if as_json:
        click.echo(json.dumps({name: asdict(preset) for name, preset in PRESETS.items()}, indent=2))
        return
    for name, preset in PRESETS.items():
        click.echo(f"{name}: {preset.doc}\n  good for: {preset.good_for}\n  bad for: {preset.bad_for}")
        for slot, choice in preset.section.items():
            click.echo(f"  {slot}: {json.dumps(choice)}")
    click.echo(f"An empty `policies:` is preset {DEFAULT}. Single settings beside `preset:` lie over it.")


@policy.command("check")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@as_json
def check_file(file: Path | None, as_json: bool) -> None:
    """Check FILE, or the settings file that the daemons would read; exit code 1 for mistakes, 0 for warnings alone."""
    outcome = check_settings(file, SECTIONS)
    mistakes, warnings = outcome.mistakes, outcome.warnings
    if as_json:
        data = {"file": str(outcome.path) if outcome.path else None, "ok": not mistakes, "mistakes": mistakes}
        click.echo(json.dumps(data | {"warnings": warnings, "notes": outcome.notes}, indent=2))
    else:
        for line in (*mistakes, *(f"warning: {line}" for line in warnings)):
            click.echo(line, err=True)
        for note in outcome.notes:
            click.echo(f"{outcome.path}: note: policies: {note}")
        where = outcome.path or f"no settings file (${VARIABLE}, ./{FILE_NAME}, {SYSTEM_WIDE}): the defaults hold"
        counts = [_count(len(mistakes), "mistake"), *([_count(len(warnings), "warning")] if warnings else [])]
        click.echo(f"{where}: {', '.join(counts)}", err=bool(mistakes))
    if mistakes:
        raise SystemExit(1)


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


@policy.command("schema")
def print_schema() -> None:
    """Print the JSON schema of quicksilver.yaml, with the policies of all installed packages, for editors."""
    click.echo(json.dumps(schema(), indent=1))


@policy.command("docs")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
def write_docs(file: Path | None) -> None:
    """Print all settings as a Markdown page, or write it to FILE."""
    text = settings_markdown()
    if file is None:
        click.echo(text)
    else:
        file.write_text(f"{text}\n")


def _shown(registry: Registry, slot: str, name: str) -> dict[str, Any]:
    definition = registry.get(slot, name)
    package = registry.find(slot, name).package
    return {
        "slot": slot,
        "name": name,
        "package": package,
        "doc": doc_of(definition),
        "settings": setting_rows(definition.config),
    }


def _cells(row: dict[str, Any]) -> list[str]:
    default = "(must be set)" if row["required"] else _value(row["default"])
    return [row["name"], row["type"], row["unit"], default, row["range"], row["doc"], row["source"]]


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _print_table(columns: list[str], rows: list[list[Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number < 2, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console.print(table)
