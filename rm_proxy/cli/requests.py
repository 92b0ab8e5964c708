"""What all reading commands share: the options of the connection, calls of the proxy, JSON or a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import click

from quicksilver.common.command_line.groups import SectionOption
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.rest_errors import RefusedError
from quicksilver.common.settings.cli_security import CONNECTION, DEFAULT_URL, default_url, rest_client, showing

REMEDY: Final = "start the proxy (`quicksilver proxy run`), or name its REST address with --url or $QUICKSILVER_URL"
_PAGE: Final = 1000

Function = Callable[..., None]


def connected(command: Function) -> Function:
    """Add the options of the connection: --url, --token-file and --ca."""
    url = click.option(
        "--url",
        cls=SectionOption,
        section=CONNECTION,
        metavar="URL",
        envvar="QUICKSILVER_URL",
        callback=lambda _ctx, _param, value: checked_url(value) if value else default_url(),
        help=f"The proxy's REST ($QUICKSILVER_URL, else {DEFAULT_URL}).",
    )
    return url(showing(command))


def reading(command: Function) -> Function:
    """Add the options of the connection, and --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON: the REST answer as it is.")(
        connected(command)
    )


def limited(command: Function) -> Function:
    """Add --limit."""
    return click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="The most rows.")(
        command
    )


def checked_url(text: str) -> str:
    """Return an address that can be called. Raises BadParameter when it is none."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        port = parts.port
    except ValueError:
        usable, port = False, None
    if not usable or port == 0:
        known = text if "//" not in text and ":" in text else "rmhost:8390"
        raise click.BadParameter(f"{text!r} is no URL of REST; write http://{known} or https://{known}")
    return text


def get(url: str, path: str, params: dict[str, Any] | None = None) -> Any:
    """Return the proxy's answer. Raises QuicksilverError when it does not answer, or refuses."""
    client = rest_client(url, timeout_s=30.0, remedy=REMEDY)
    try:
        return client.get(path, params)
    except RefusedError as error:
        if error.code in ("not-json", "http-404"):
            raise QuicksilverError(
                error.message, place=error.place, remedy="is this the proxy's REST address?"
            ) from error
        raise
    finally:
        client.close()


def pages(url: str, path: str, params: dict[str, Any] | None = None, limit: int | None = None) -> list[Any]:
    """Return the items of all pages, `limit` at most."""
    items: list[Any] = []
    while limit is None or len(items) < limit:
        size = _PAGE if limit is None else min(_PAGE, limit - len(items))
        page = get(url, path, {**(params or {}), "limit": size, "offset": len(items)})
        items += page["items"]
        if not page["more"]:
            break
    return items


def show(answer: Any, as_json: bool, render: Callable[[Any], None]) -> None:
    """Print an answer, as JSON or by `render`."""
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        render(answer)
