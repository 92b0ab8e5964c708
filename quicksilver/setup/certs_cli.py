"""`quicksilver certs`: a CA, certificates and tokens for the REST of proxy and sidecars."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

import click
from rich.console import Console
from rich.table import Table

from quicksilver.common.command_line.groups import CommandGroup
from quicksilver.common.http.certs import (
    CA_DAYS,
    DAYS,
    CertificateError,
    Pair,
    Shown,
    make_ca,
    make_certificate,
    pair_of,
    show,
)
from quicksilver.common.http.tokens import Role, add_token

_HERE: Final = ("localhost", "127.0.0.1", "::1")
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?")
_DAY_S: Final = 86400.0
_FOLDER: Final = Path("/etc/quicksilver/tls")

folder = click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=_FOLDER,
    show_default=True,
    help="Where the CA and the certificates lie.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
renew = click.option("--renew", is_flag=True, help="Replace the existing one; without NAMES its names stay.")


@click.group(cls=CommandGroup)
def certs() -> None:
    """Certificates and tokens for the REST of proxy and sidecars."""


@certs.command()
@click.option("--cluster", default="", help="The cluster's name, for the CA's own name.")
@click.option("--days", type=click.FloatRange(0, min_open=True), default=CA_DAYS, show_default=True)
@as_json
@folder
def init(folder: Path, cluster: str, days: float, as_json: bool) -> None:
    """Make a CA: ca.crt for every host, and ca.key, which belongs on none of them."""
    _print_pair(make_ca(folder, cluster, days=days), as_json)


@certs.command()
@click.argument("names", nargs=-1)
@click.option("--days", type=click.FloatRange(0, min_open=True), default=DAYS, show_default=True)
@renew
@as_json
@folder
def proxy(names: tuple[str, ...], folder: Path, days: float, renew: bool, as_json: bool) -> None:
    """Make proxy.crt and proxy.key for the host NAMES (default: this host), and its loopback addresses."""
    alt_names = () if renew and not names else tuple(dict.fromkeys((*(names or (socket.getfqdn(),)), *_HERE)))
    _print_pair(make_certificate(folder, "proxy", alt_names, days=days, renew=renew), as_json)


@certs.command()
@click.argument("host", required=False)
@click.argument("names", nargs=-1)
@click.option(
    "--hosts",
    "file",
    type=click.File("r", encoding="utf-8"),
    help="Instead of HOST: a file with a line for each node, HOST and then NAMES; - reads standard input.",
)
@click.option("--days", type=click.FloatRange(0, min_open=True), default=DAYS, show_default=True)
@renew
@as_json
@folder
def node(
    host: str | None,
    names: tuple[str, ...],
    file: TextIO | None,
    folder: Path,
    days: float,
    renew: bool,
    as_json: bool,
) -> None:
    """Make HOST.crt and HOST.key; HOST as YARN names the node, NAMES are its sidecar's further addresses.

    With --hosts, nodes that have a certificate already are skipped, so that a longer file adds the new ones.
    """
    if (host is None) is (file is None):
        raise click.UsageError("give a HOST, or --hosts FILE")
    if host is not None:
        alt_names = () if renew and not names else (host, *names)
        _print_pair(make_certificate(folder, host, alt_names, days=days, renew=renew), as_json)
        return
    assert file is not None
    _of_file(read_nodes(file.read(), file.name), folder, days, renew, as_json)


def _of_file(nodes: Mapping[str, list[str]], folder: Path, days: float, renew: bool, as_json: bool) -> None:
    there = {name for name in nodes if pair_of(folder, name).certificate.exists()}
    pairs = []
    for name, others in nodes.items():
        if name not in there:
            pairs.append(make_certificate(folder, name, (name, *others), days=days))
        elif renew:
            pairs.append(make_certificate(folder, name, (name, *others) if others else (), days=days, renew=True))
    if as_json:
        skips = [] if renew else sorted(there)
        click.echo(json.dumps({"made": [_as_json(pair) for pair in pairs], "there_already": skips}, indent=2))
        return
    for pair in pairs:
        _print_pair(pair, as_json)
    click.echo(f"{len(pairs)} made, {len(nodes) - len(pairs)} there already")


def read_nodes(text: str, place: str) -> dict[str, list[str]]:
    """Return hosts with their further names of lines `HOST NAME...`; `#` begins a comment.

    Raises CertificateError with a line for each mistake, before any certificate is made.
    """
    nodes: dict[str, list[str]] = {}
    mistakes = []
    for number, line in enumerate(text.splitlines(), 1):
        host, *others = line.partition("#")[0].split() or [""]
        if not host:
            continue
        if host in nodes:
            mistakes.append(f"{place}:{number}: {host} is there twice; remove one of the lines")
        elif not _HOST.fullmatch(host):
            mistakes.append(f"{place}:{number}: {host!r} is no host name; write HOST and its further names")
        nodes[host] = others
    if mistakes:
        raise CertificateError("\n".join(mistakes))
    if not nodes:
        raise CertificateError("names no host", place=place, remedy="write a line for each node")
    return nodes


@certs.command("show")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--within", "within_days", type=click.FloatRange(0), default=30, show_default=True)
@as_json
@folder
def show_certificates(files: tuple[Path, ...], within_days: float, as_json: bool, folder: Path) -> None:
    """Show FILES, or all *.crt of --dir; exit code 1 when one ends --within so many days, or has ended."""
    certificates = [show(file) for file in files or sorted(folder.glob("*.crt"))]
    if not certificates:
        raise CertificateError("has no certificates", place=str(folder), remedy="`quicksilver certs init` makes a CA")
    now_s = time.time()
    if as_json:
        rows = [asdict(each) | {"days_left": _days_left(each, now_s)} for each in certificates]
        click.echo(json.dumps(rows, indent=2))
    else:
        _table(certificates, now_s)
    if any(_days_left(certificate, now_s) < within_days for certificate in certificates):
        raise click.exceptions.Exit(1)


@certs.command()
@click.argument("role", type=click.Choice([role.value for role in Role]))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--user", default="", help="Whom the token stands for; the role user needs one.")
@as_json
def token(role: str, file: Path, user: str, as_json: bool) -> None:
    """Add a new random token of ROLE to the token FILE; print its SHA-256, which checks it but cannot be sent."""
    digest = hashlib.sha256(add_token(file, Role(role), user).encode()).hexdigest()
    if as_json:
        click.echo(json.dumps({"file": str(file), "role": role, "sha256": digest}, indent=2))
        return
    named = f"{role}:{user}" if user else role
    click.echo(f"{file}: added; for servers that only check it: {named} sha256:{digest}")


def _print_pair(pair: Pair, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_as_json(pair), indent=2))
        return
    names = ", ".join(show(pair.certificate).names)
    click.echo(f"{pair.certificate}{f' ({names})' if names else ''}\n{pair.key}")


def _as_json(pair: Pair) -> dict[str, Any]:
    shown = show(pair.certificate)
    data = {"certificate": str(pair.certificate), "key": str(pair.key), "names": list(shown.names)}
    return data | {"ends_s": shown.ends_s}


def _days_left(certificate: Shown, now_s: float) -> float:
    return round((certificate.ends_s - now_s) / _DAY_S, 1)


def _table(certificates: list[Shown], now_s: float) -> None:
    console = Console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("file", "names", "issuer", "ends", "days left"):
        table.add_column(column, overflow="fold")
    for certificate in certificates:
        ends = datetime.fromtimestamp(certificate.ends_s, UTC).strftime("%Y-%m-%d %H:%M")
        names = ", ".join(certificate.names) or ("(a CA)" if certificate.is_ca else "(none)")
        table.add_row(certificate.file, names, certificate.issuer, ends, f"{_days_left(certificate, now_s):g}")
    console.print(table)
