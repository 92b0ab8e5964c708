"""Hadoop's configuration: the site files of HADOOP_CONF_DIR, read as Hadoop's `Configuration` reads them.

Files in order: core-site, yarn-site, mapred-site; a later one overrides, unless the earlier said `<final>`.
`${name}`, `${env.NAME}` and `${env.NAME:-default}` are substituted (at most 20 times); XInclude is followed. What no
file sets falls back to `quicksilver.common.hadoop.defaults`.
"""

from __future__ import annotations

import getpass
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from quicksilver.common.address import Address, parse_address
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop import yarn_env
from quicksilver.common.hadoop.defaults import DEFAULTS
from quicksilver.common.hadoop.xml import Property, read_properties

SITE_FILES: Final = ("core-site.xml", "yarn-site.xml", "mapred-site.xml")
_VARIABLE: Final = re.compile(r"\$\{([^}$\s]+)\}")
_MAX_SUBSTITUTIONS: Final = 20
_UNIT_S: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"(-?\d+)\s*(ns|us|ms|s|m|h|d)?")


@dataclass(frozen=True, slots=True)
class HadoopConf:
    """The effective properties of one configuration directory."""

    directory: Path
    properties: Mapping[str, Property]
    env: Mapping[str, str]
    system: Mapping[str, str] = field(default_factory=dict)
    """System properties of the daemon's JVM, as far as they are quicksilver's."""

    def text(self, name: str) -> str | None:
        """Return the substituted value of `name`; None when neither a file nor the defaults have it."""
        found = self.properties.get(name)
        raw = found.value if found else DEFAULTS.get(name)
        return None if raw is None else self._substitute(raw).strip()

    def place(self, name: str) -> str:
        """Say where `name` is set: file, line and property."""
        found = self.properties.get(name)
        where = f"{found.file}:{found.line}" if found else f"{self.directory} (Hadoop's default)"
        return f"{where}: {name}"

    def required(self, name: str) -> str:
        """Return the value of `name`; raises SettingsError when there is none or it is empty."""
        value = self.text(name)
        if not value:
            place = str(self.directory / _site_of(name))
            raise SettingsError(f"{name} is not set", place=place, remedy="add this property")
        return value

    def integer(self, name: str) -> int:
        """Return a whole number; Hadoop's 0x form is understood. Raises SettingsError for anything else."""
        value = self.required(name)
        try:
            return int(value, 16) if value.lower().removeprefix("-").startswith("0x") else int(value)
        except ValueError:
            raise self._bad(name, value, "a whole number") from None

    def number(self, name: str) -> float:
        """Return a number; a trailing `f` as in Java is allowed. Raises SettingsError for anything else."""
        value = self.required(name)
        try:
            return float(value.rstrip("fFdD"))
        except ValueError:
            raise self._bad(name, value, "a number") from None

    def boolean(self, name: str, default: bool = False) -> bool:
        """Return true or false; like Hadoop, the default for an absent or empty value. Raises SettingsError else."""
        value = (self.text(name) or "").lower()
        if not value:
            return default
        if value not in ("true", "false"):
            raise self._bad(name, value, "true or false")
        return value == "true"

    def names(self, name: str) -> list[str]:
        """Return a comma-separated list, trimmed, without empty items; [] when absent."""
        return [item.strip() for item in (self.text(name) or "").split(",") if item.strip()]

    def duration_s(self, name: str, unit: str = "ms") -> float:
        """Return a time in seconds; `unit` is meant when the value has no suffix of its own (ns us ms s m h d)."""
        value = self.required(name)
        match = _DURATION.fullmatch(value.lower())
        if match is None:
            raise self._bad(name, value, f"a time such as 10s (plain numbers are {unit})")
        return int(match[1]) * _UNIT_S[match[2] or unit]

    def address(self, name: str) -> Address:
        """Return a host:port property."""
        return parse_address(self.required(name), self.place(name), _default_port(name))

    @property
    def ha(self) -> bool:
        """Whether several ResourceManagers are configured."""
        return self.boolean("yarn.resourcemanager.ha.enabled") and bool(self.rm_ids())

    def rm_ids(self) -> list[str]:
        """Return the ids of the ResourceManagers, e.g. ["rm1", "rm2"]; [] without high availability."""
        return self.names("yarn.resourcemanager.ha.rm-ids")

    def rm_id(self) -> str | None:
        """Return the id of the ResourceManager of this host; None when not said or without high availability."""
        return (self.text("yarn.resourcemanager.ha.id") or None) if self.ha else None

    def rm_address(self, name: str, rm_id: str | None = None) -> Address:
        """Return an address of the ResourceManager, e.g. of `yarn.resourcemanager.scheduler.address`.

        With high availability `rm_id` (or `yarn.resourcemanager.ha.id`) chooses the one: the property `NAME.ID`, else
        the default port at `yarn.resourcemanager.hostname.ID`. Raises SettingsError when none is chosen.
        """
        if not self.ha:
            return self.address(name)
        chosen = rm_id or self.rm_id()
        if chosen is None:
            raise SettingsError(
                f"there are several ResourceManagers ({', '.join(self.rm_ids())})",
                place=self.place("yarn.resourcemanager.ha.rm-ids"),
                remedy="say which one is meant: set yarn.resourcemanager.ha.id, or rm_id in quicksilver.yaml",
            )
        if chosen not in self.rm_ids():
            raise SettingsError(
                f"no ResourceManager has the id {chosen}",
                place=self.place("yarn.resourcemanager.ha.rm-ids"),
                remedy=f"take one of {', '.join(self.rm_ids())}",
            )
        if self.text(f"{name}.{chosen}"):
            return parse_address(self.required(f"{name}.{chosen}"), self.place(f"{name}.{chosen}"), _default_port(name))
        host = self.required(f"yarn.resourcemanager.hostname.{chosen}")
        port = _default_port(name)
        return parse_address(f"{host}:{port}", self.place(f"yarn.resourcemanager.hostname.{chosen}"))

    def rm_web_url(self, rm_id: str | None = None) -> str:
        """Return the URL of the ResourceManager's web server, http or https as `yarn.http.policy` says."""
        secure = self.text("yarn.http.policy") == "HTTPS_ONLY"
        name = "yarn.resourcemanager.webapp.https.address" if secure else "yarn.resourcemanager.webapp.address"
        return f"{'https' if secure else 'http'}://{reachable(self.rm_address(name, rm_id))}"

    def nm_web_url(self) -> str:
        """Return the URL of this node's NodeManager web server, on loopback where it binds there."""
        secure = self.text("yarn.http.policy") == "HTTPS_ONLY"
        name = "yarn.nodemanager.webapp.https.address" if secure else "yarn.nodemanager.webapp.address"
        address = self.address(name)
        bound = self.text("yarn.nodemanager.bind-host")
        if bound:
            address = Address(bound, address.port)
        return f"{'https' if secure else 'http'}://{reachable(address)}"

    def _bad(self, name: str, value: str, wanted: str) -> SettingsError:
        return SettingsError(f"{value!r} is not {wanted}", place=self.place(name), remedy="correct the value")

    def _substitute(self, raw: str) -> str:
        text = raw
        for _ in range(_MAX_SUBSTITUTIONS):
            for match in _VARIABLE.finditer(text):
                value = self._variable(match[1])
                if value is not None and match[0] not in value:
                    text = text[: match.start()] + value + text[match.end() :]
                    break
            else:
                return text
        raise SettingsError(
            f"{raw!r} needs more than {_MAX_SUBSTITUTIONS} substitutions",
            place=str(self.directory),
            remedy="look for properties that refer to each other",
        )

    def _variable(self, name: str) -> str | None:
        if name.startswith("env."):
            variable, colon, default = name.removeprefix("env.").partition(":-")
            if not colon:
                variable, _, default = variable.partition("-")
            value = self.env.get(variable)
            return value if value or (value is not None and not colon) else default or value
        if name in self.system:
            return self.system[name]
        found = self.properties.get(name)
        if found:
            return found.value
        return DEFAULTS.get(name, self._system(name))

    def _system(self, name: str) -> str | None:
        """Return what Hadoop's own start scripts and the JVM define as system properties."""
        if name == "user.name":
            return self.env.get("HADOOP_USER_NAME") or getpass.getuser()
        if name in ("yarn.log.dir", "hadoop.log.dir"):
            home = self.env.get("HADOOP_HOME", "")
            return self.env.get("HADOOP_LOG_DIR") or (f"{home}/logs" if home else None)
        return {"user.home": str(Path.home()), "java.io.tmpdir": tempfile.gettempdir()}.get(name)


def load_hadoop_conf(
    directory: Path | None = None, env: Mapping[str, str] | None = None, *, resourcemanager: bool = False
) -> HadoopConf:
    """Read a configuration directory: the given one, else $HADOOP_CONF_DIR, $YARN_CONF_DIR, /etc/hadoop/conf.

    resourcemanager: as the ResourceManager reads it, with the system properties that yarn-env.sh gives it.

    Raises SettingsError when there is none, when it has no site file, or when a file is not Hadoop's XML.
    """
    env = os.environ if env is None else env
    chosen = directory or _directory(env)
    files = [chosen / name for name in SITE_FILES if (chosen / name).is_file()]
    if not files:
        raise SettingsError(
            "no core-site.xml and no yarn-site.xml there" if chosen.is_dir() else "no such directory",
            place=str(chosen),
            remedy="name the directory of the cluster's site files"
            if directory
            else "set HADOOP_CONF_DIR to the directory of the cluster's site files, or name it with --conf-dir",
        )
    properties: dict[str, Property] = {}
    for file in files:
        for prop in read_properties(file):
            before = properties.get(prop.name)
            if before is None or not before.final:
                properties[prop.name] = prop
    system = yarn_env.rm_properties(chosen) if resourcemanager else {}
    return HadoopConf(chosen, properties, yarn_env.with_node(chosen, env), system)


def reachable(address: Address) -> Address:
    """Return where to connect to what listens on `address`: loopback for 0.0.0.0 and ::."""
    return Address("127.0.0.1", address.port) if address.host in ("0.0.0.0", "::") else address


def _directory(env: Mapping[str, str]) -> Path:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        if env.get(name):
            return Path(env[name])
    return Path("/etc/hadoop/conf")


def _site_of(name: str) -> str:
    return next((f"{p}-site.xml" for p in ("yarn", "mapred") if name.startswith(p)), "core-site.xml")


def _default_port(name: str) -> int | None:
    _, colon, port = DEFAULTS.get(name, "").rpartition(":")
    return int(port) if colon and port.isdigit() else None
