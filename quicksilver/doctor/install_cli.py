"""`quicksilver install` and `quicksilver uninstall`: merge hadoop-conf/ into site files, and remove it again."""

from __future__ import annotations

import difflib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import load_hadoop_conf
from quicksilver.common.hadoop.managed import newest
from quicksilver.common.hadoop.overlays import overlay_root
from quicksilver.common.process.whole_file import write_whole
from quicksilver.common.settings.settings_file import load_settings
from quicksilver.doctor.collect import read_quicksilver_yaml
from quicksilver.doctor.finding import RESTARTS
from quicksilver.doctor.install import EXTRAS, PropertyChange, WantedValue, bare_conf, install, merged, uninstall
from quicksilver.doctor.install_text import FORMATS, XML, as_text
from quicksilver.doctor.model import CLIENT, NM, RM, DoctorSettings, Role
from quicksilver.doctor.node_size import own_vcores

_ROLES: Final[dict[str, Role]] = {RM: RM, NM: NM, CLIENT: CLIENT}
_BACKUP: Final = ".before-quicksilver-"
Command = Callable[..., None]


def _options(command: Command) -> Command:
    directory = click.Path(path_type=Path, file_okay=False)
    options = (
        click.option(
            "--conf-dir", type=directory, help="Hadoop's configuration directory; default as for all commands."
        ),
        click.option("--dry-run", is_flag=True, help="Print what would change, as a diff; change nothing."),
        click.option("--out", type=directory, help="Write a changed copy of the directory here."),
        click.option("--in-place", is_flag=True, help="Change the files themselves; backups are written beside them."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON: the files, and what to restart."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command("install")
@_options
@click.option("--role", "roles", type=click.Choice(list(_ROLES)), required=True, multiple=True, help="Who reads it.")
@click.option("--with", "extras", type=click.Choice(EXTRAS), multiple=True, help="Also that part of hadoop-conf/.")
@click.option("--host", default="", help="The node's own name, where its files name none.")
@click.option("--config", type=click.Path(path_type=Path), help="quicksilver.yaml: how many vcores a node needs.")
@click.option("--shared", is_flag=True, help="All hosts get a copy of these files; yarn-env.sh says what differs.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Print the properties for a manager that writes the files: xml for Cloudera Manager, properties for Ambari.",
)
def install_command(
    conf_dir: Path | None,
    dry_run: bool,
    out: Path | None,
    in_place: bool,
    as_json: bool,
    roles: tuple[str, ...],
    extras: tuple[str, ...],
    host: str,
    config: Path | None,
    shared: bool,
    form: str | None,
) -> None:
    """Put quicksilver's properties into the site files of one or several roles.

    Existing text is preserved, down to the byte; additions are in one marked block. A role is added to those that are
    installed already.
    """
    if host and shared:
        raise click.UsageError("--host names one node, --shared is for files of all: give one of them")
    directory = _directory(conf_dir)
    new_roles = [_ROLES[role] for role in roles]
    settings = read_quicksilver_yaml(config)

    def changes(folder: Path) -> list[PropertyChange]:
        plan = replace(merged(folder, new_roles, extras, host, shared), managed=form == XML)
        return install(folder, plan, overlay_root(), settings)

    if form is not None:
        if dry_run or out or in_place:
            raise click.UsageError("--format prints and changes nothing: give neither --dry-run, --out nor --in-place")
        click.echo(as_text(changes(directory), form), nl=False)
        return
    plan = merged(directory, new_roles, extras, host, shared)
    before = [role for role in plan.roles if role not in new_roles]
    if before:
        click.echo(
            f"installed before and kept: {', '.join(before)}; `quicksilver uninstall` removes all roles", err=as_json
        )
    _carry_out(changes, directory, dry_run, out, in_place, as_json, _next(directory, plan, settings))


def _next(directory: Path, plan: WantedValue, settings: DoctorSettings) -> str:
    """Return what is left to do: the node's vcores in quicksilver.yaml, and restarts."""
    restarts = f"restart: {', '.join(dict.fromkeys(RESTARTS[role] for role in plan.roles))}"
    vcores = own_vcores(bare_conf(directory)) if NM in plan.roles and settings.sidecar.vcores is None else None
    return f"quicksilver.yaml of the node: sidecar: {{vcores: {vcores}}}; {restarts}" if vcores else restarts


def _directory(conf_dir: Path | None) -> Path:
    """Return the configuration directory as all commands find it. Raises SettingsError when there is none."""
    return newest(conf_dir) if conf_dir else load_hadoop_conf(load_settings(None).hadoop_conf_dir).directory


@click.command("uninstall")
@_options
def uninstall_command(conf_dir: Path | None, dry_run: bool, out: Path | None, in_place: bool, as_json: bool) -> None:
    """Take out what `quicksilver install` put into site files: they are as they were before, down to the byte."""
    after = "restart the daemons that read them; stop proxy and sidecars when no application runs with queueables"
    directory = _directory(conf_dir)
    _carry_out(uninstall, directory, dry_run, out, in_place, as_json, after)
    copies = sorted(str(file) for file in directory.glob(f"*{_BACKUP}*")) if not out else []
    if copies and not as_json:
        click.echo(f"copies of `install` and `uninstall`, which may be removed: {' '.join(copies)}")


def _carry_out(
    plan: Callable[[Path], list[PropertyChange]],
    conf_dir: Path,
    dry_run: bool,
    out: Path | None,
    in_place: bool,
    as_json: bool,
    after: str,
) -> None:
    if dry_run + (out is not None) + in_place != 1:
        raise click.UsageError("give one of --dry-run, --out COPY, --in-place")
    changes = plan(conf_dir)
    if out is not None:
        _copy(conf_dir, out)
        changes = [PropertyChange(out / change.file.name, change.before, change.after) for change in changes]
    done = []
    for change in changes:
        backup = _backup(change) if in_place else None
        if not dry_run:
            _write(change)
        verb = "removed" if change.after is None else "written"
        done.append({"file": str(change.file), "done": verb, "backup": backup})
    if as_json:
        data = {"dry_run": dry_run, "files": done, "next": after if changes else ""}
        click.echo(json.dumps(data | ({"diff": "".join(map(diff, changes))} if dry_run else {}), indent=2))
        return
    if not changes:
        click.echo("nothing to change")
    if dry_run:
        click.echo("".join(diff(change) for change in changes), nl=False)
        return
    for entry in done:
        click.echo(f"{entry['file']}: {entry['done']}{f'; backup: {backup}' if (backup := entry['backup']) else ''}")
    if changes:
        click.echo(after)


def diff(change: PropertyChange) -> str:
    """Return a unified diff of one change."""
    before, after = (
        (text or b"").decode("utf-8", "replace").splitlines(True) for text in (change.before, change.after)
    )
    old, new = (str(change.file) if text is not None else "/dev/null" for text in (change.before, change.after))
    lines = difflib.unified_diff(before, after, old, new)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _copy(conf_dir: Path, out: Path) -> None:
    if out.exists():
        raise SettingsError("is there already", place=str(out), remedy="name a directory that is not there yet")
    shutil.copytree(conf_dir, out)


def _backup(change: PropertyChange) -> str | None:
    """Back the file up beside it; return the path of the copy, None for a new file."""
    if change.before is None:
        return None
    copy = change.file.with_name(f"{change.file.name}{_BACKUP}{time.strftime('%Y%m%d%H%M%S')}")
    shutil.copy2(change.file, copy)
    return str(copy)


def _write(change: PropertyChange) -> None:
    """Replace a file at once, with the owner and mode that it had; a link stays a link."""
    target = change.file.resolve()
    if change.after is None:
        target.unlink()
        return
    write_whole(target, change.after, mode=0o666, like=target if change.before is not None else None)
