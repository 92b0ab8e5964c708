"""`quicksilver doctor`: finds what would break quicksilver in this cluster, and how to correct it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import click

from quicksilver.common.errors import SettingsError
from quicksilver.doctor.by_install import by_install
from quicksilver.doctor.collect import CollectPlaces, read_files
from quicksilver.doctor.diagnose import diagnose
from quicksilver.doctor.model import Facts, Severity
from quicksilver.doctor.render import as_data, report

FOUND: Final = 1
"""Exit code when there are errors; with --strict warnings too."""
NOT_LOOKED: Final = 2
"""Exit code when the files could not be read."""
_DIR: Final = click.Path(path_type=Path)


@click.command()
@click.option("--conf-dir", type=_DIR, help="The clients' site files; default: hadoop_conf_dir, $HADOOP_CONF_DIR.")
@click.option("--rm-conf-dir", "rm_conf_dirs", type=_DIR, multiple=True, help="A ResourceManager's; may be repeated.")
@click.option("--nm-conf-dir", "nm_conf_dirs", type=_DIR, multiple=True, help="A NodeManager's; may be repeated.")
@click.option("--config", type=_DIR, help="quicksilver.yaml; default: $QUICKSILVER_CONFIG.")
@click.option("--url", "urls", multiple=True, envvar="QUICKSILVER_URL", help="A proxy's REST; may be repeated.")
@click.option("--offline", is_flag=True, help="Read files only, call no daemon.")
@click.option("--node", is_flag=True, help="Check this node too: its --conf-dir is the NodeManager's.")
@click.option("--strict", is_flag=True, help="Exit code 1 for warnings too.")
@click.option("--verbose", "-v", is_flag=True, help="Print also what `quicksilver install` would mend.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(
    conf_dir: Path | None,
    rm_conf_dirs: tuple[Path, ...],
    nm_conf_dirs: tuple[Path, ...],
    config: Path | None,
    urls: tuple[str, ...],
    offline: bool,
    node: bool,
    strict: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Find what would break quicksilver in this cluster; print what to do about it.

    Exit code 0: no errors; 1: errors; 2: the configuration could not be read.
    """
    where = CollectPlaces(config, conf_dir, rm_conf_dirs, nm_conf_dirs, node)
    try:
        facts = look(where, urls, offline)
    except SettingsError as error:
        click.echo(f"quicksilver: error: {error}", err=True)
        raise click.exceptions.Exit(NOT_LOOKED) from None
    findings = diagnose(facts)
    mended = by_install(facts, findings, diagnose)
    data = as_data(findings, facts.unchecked, mended)
    click.echo(json.dumps(data, indent=2) if as_json else report(findings, facts.unchecked, mended, verbose=verbose))
    least = Severity.WARNING if strict else Severity.ERROR
    if any(finding.severity >= least for finding in findings):
        raise click.exceptions.Exit(FOUND)


def look(where: CollectPlaces, urls: tuple[str, ...], offline: bool) -> Facts:
    """Return the whole picture. Raises SettingsError when files that were named cannot be read."""
    from quicksilver.doctor.local import look_here

    facts = read_files(where)
    if not offline:
        from quicksilver.doctor.live.daemons import ask_daemons

        facts = ask_daemons(facts, urls)
    return look_here(facts, where, offline)
