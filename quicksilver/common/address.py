"""host:port pairs."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, PlainSerializer

from quicksilver.common.errors import SettingsError


class Address(NamedTuple):
    """A TCP address; `host` is a name, an IPv4 address, or an IPv6 address without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, place: str, default_port: int | None = None) -> Address:
    """Read `host:port`, `[v6]:port`, or `host` where there is a default port.

    Raises SettingsError naming `place` when it is none of these or the port is not within 0..65535.
    """
    bare = text.strip()
    host, colon, port = bare.rpartition(":")
    if not colon or bare.endswith("]"):
        host, port = bare, "" if default_port is None else str(default_port)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SettingsError(f"{text!r} is not an address", place=place, remedy="write it as host:port")
    return Address(host, int(port))


def _to_address(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_address(value, "")
    except SettingsError as error:
        raise ValueError(str(error)) from error


AddressText = Annotated[Address, BeforeValidator(_to_address), PlainSerializer(str)]
"""An address written as `host:port`."""
