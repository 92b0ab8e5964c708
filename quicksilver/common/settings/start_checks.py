"""Warnings about settings with which the daemons refuse to start on this host, as far as the file alone shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from policies.errors import Mistake
from quicksilver.common.address import Address, parse_address
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import load_hadoop_conf
from quicksilver.common.http.security import REMEDY, stays_here

_DAEMONS: Final = ("proxy", "sidecar")
_SIDECAR_REST_PORT: Final = 8391
_OF_A_NODE: Final = ("yarn.nodemanager.address", "yarn.nodemanager.hostname")
_ANY: Final = ("0.0.0.0", "::")
_FILES: Final = ("token_file", "tls_cert", "tls_key", "tls_ca")


def refused_at_start(data: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield a warning for each reason why `proxy run` or `sidecar run` would refuse these settings."""
    security = _section(data, "security")
    if security.get("tls_cert") is None and security.get("insecure") is not True:
        for name in _DAEMONS:
            address = _section(data, name).get("rest_listen")
            if isinstance(address, str) and _beyond_loopback(address):
                message = (
                    f"REST would listen beyond loopback without TLS, and `quicksilver {name} run` refuses it; {REMEDY}"
                )
                yield Mistake((name, "rest_listen"), message)
        address = _sidecar_default(data)
        if address is not None and _beyond_loopback(address):
            message = f"rest_listen is not set, so REST would listen at {address} without TLS"
            remedy = f"`quicksilver sidecar run` refuses that; {REMEDY}"
            yield Mistake(("sidecar",), f"{message}, and {remedy}", on_key=True)
    if isinstance(data.get("proxy"), Mapping) and not {"upstream", "rm_conf_dir"} & _section(data, "proxy").keys():
        message = "neither upstream nor rm_conf_dir is set, and `quicksilver proxy run` refuses that"
        remedy = "name the address to which the ResourceManager's scheduler was moved, e.g. upstream: rmhost:18030"
        yield Mistake(("proxy",), f"{message}; {remedy}", on_key=True)
    if security.get("tls_ca") is not None and security.get("tls_cert") is None and {*_DAEMONS} & data.keys():
        message = "set without tls_cert: REST would be in the clear, and no daemon starts"
        yield Mistake(("security", "tls_ca"), f"{message}; name this host's certificate and key")
    for name in _FILES:
        file = security.get(name)
        if isinstance(file, str) and not os.path.lexists(file):
            message = f"{file} is not on this host, and a daemon that needs it does not start here"
            yield Mistake(("security", name), f"{message}; `quicksilver certs` makes it")


def _sidecar_default(data: Mapping[str, Any]) -> str | None:
    """Return where a sidecar's REST listens without `rest_listen`; None if it is set, or cannot be known here."""
    section = _section(data, "sidecar")
    if "sidecar" not in data or section.get("rest_listen") is not None:
        return None
    folder, listen = data.get("hadoop_conf_dir"), section.get("listen")
    try:
        if not isinstance(listen, str) or section.get("intercept") == "nftables":
            conf = load_hadoop_conf(Path(folder).expanduser() if isinstance(folder, str) else None)
            if conf.properties.keys().isdisjoint(_OF_A_NODE):
                return None  # files of clients: the sidecar reads its own
            own = conf.address("yarn.nodemanager.address")
            if own.host in _ANY:
                return None  # of no node: the sidecar wants a name there, or has files of its own
            listen = str(own)
        return str(Address(parse_address(listen, "").host, _SIDECAR_REST_PORT))
    except SettingsError:
        return None  # the daemon names what is wrong with Hadoop's files


def _section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = data.get(name)
    return section if isinstance(section, Mapping) else {}


def _beyond_loopback(address: str) -> bool:
    try:
        return not stays_here(parse_address(address, "").host)
    except SettingsError:
        return False  # a mistake of its own
