"""`quicksilver proxy bypass [on|off|auto]`."""

from __future__ import annotations

import getpass
from typing import Any

import click

from quicksilver.common.settings.cli_security import rest_client
from rm_proxy.cli.commands import proxy
from rm_proxy.cli.requests import REMEDY, get, reading, show
from rm_proxy.views.service_models import BypassOrder

__all__ = ["proxy"]


@proxy.command("bypass")
@click.argument("order", type=click.Choice(("on", "off", "auto")), required=False)
@reading
def bypass(order: str | None, url: str, as_json: bool) -> None:
    """Show applications in bypass, or order it: `on` for all, `off` for none, `auto`: the error budget decides.

    In bypass nothing new becomes queueable; running and waiting containers continue. The order outlives restarts.
    """
    if order is None:
        show(get(url, "/v1/bypass"), as_json, _print)
        return
    client = rest_client(url, timeout_s=30.0, remedy=REMEDY)
    try:
        show(client.post("/v1/bypass", BypassOrder.model_validate({"order": order, "who": _user()})), as_json, _print)
    finally:
        client.close()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _print(answer: dict[str, Any]) -> None:
    why = f": {answer['why']}" if answer["why"] else ""
    click.echo(f"order {answer['order']}, all applications: {answer['phase']}{why}")
    for app_id, reason in answer["applications"].items():
        click.echo(f"{app_id}: bypass: {reason}")
