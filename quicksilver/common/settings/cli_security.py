"""Credentials of commands at a proxy or sidecar: from --token-file and --ca, else from the settings file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from quicksilver.common.command_line.groups import SectionOption
from quicksilver.common.errors import SettingsError
from quicksilver.common.http.security import Credentials, SecuritySettings, client_context
from quicksilver.common.http.tokens import Role, read_tokens
from quicksilver.common.settings.settings_file import SettingsFileError, find_settings, load_settings

if TYPE_CHECKING:
    from quicksilver.common.http.rest_client import RestClient

CONNECTION: Final = "Connection"
"""Heading of the options of `showing` and of --url in `--help`."""
DEFAULT_URL: Final = "http://127.0.0.1:8390"
_KEY: Final = "quicksilver.security"
_ROLES: Final = (Role.ADMIN, Role.READ)

Command = Callable[..., Any]


def showing(command: Command) -> Command:
    """Add --token-file and --ca; `rest_client` finds what they said by itself."""
    path = click.Path(dir_okay=False, path_type=Path)
    token_file = click.option(
        "--token-file",
        cls=SectionOption,
        section=CONNECTION,
        metavar="FILE",
        type=path,
        envvar="QUICKSILVER_TOKEN_FILE",
        callback=_keep("token_file"),
        expose_value=False,
        help="Your token (else security.token_file of the settings).",
    )
    ca = click.option(
        "--ca",
        cls=SectionOption,
        section=CONNECTION,
        metavar="FILE",
        type=path,
        envvar="QUICKSILVER_CA",
        callback=_keep("tls_ca"),
        expose_value=False,
        help="The cluster's CA, for https:// (else security.tls_ca of the settings).",
    )
    return token_file(ca(command))


def default_url() -> str:
    """Return the address to ask when none is named."""
    return DEFAULT_URL.replace("http:", f"{_settings().scheme}:", 1)


def rest_client(url: str, *, timeout_s: float, remedy: str = "") -> RestClient:
    """Return a client for the running command. Raises SettingsError when what it is to show cannot be read."""
    from quicksilver.common.http.rest_client import RestClient  # not for a daemon, whose module has commands beside it

    options = click.get_current_context().meta.get(_KEY, {})
    settings = _settings()
    token_file = options.get("token_file") or settings.token_file
    ca = options.get("tls_ca") or settings.tls_ca
    context = client_context(ca) if ca is not None and url.startswith("https:") else None
    if token_file is None and context is None:
        return RestClient(url, timeout_s=timeout_s, remedy=remedy)
    token = None if token_file is None else _token(token_file)
    credentials = Credentials(lambda: token, context, ca if context else None, settings.insecure)
    return RestClient(url, timeout_s=timeout_s, remedy=remedy, credentials=credentials)


def _token(path: Path) -> str:
    text = read_tokens(path, "token file").first(_ROLES)
    if text is None:
        message, remedy = "has no token of the roles admin or read", "name one that has: --token-file"
        raise SettingsError(message, place=f"token file: {path}", remedy=remedy)
    return text


def _settings() -> SecuritySettings:
    """Return the section of the settings file; none where this user may not read it, or it is broken."""
    path = find_settings()
    if path is None or not os.access(path, os.R_OK):
        return SecuritySettings()
    try:
        return load_settings(path).security()
    except SettingsFileError as error:
        click.echo(f"quicksilver: note: no token, no CA: {error.lines[0]}", err=True)
        return SecuritySettings()


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Path | None], None]:
    def keep(ctx: click.Context, _param: click.Parameter, value: Path | None) -> None:
        if value is not None:
            ctx.meta.setdefault(_KEY, {})[name] = value

    return keep
