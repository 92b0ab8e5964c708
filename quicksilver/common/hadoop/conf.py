"""Hadoop's configuration: the site files of HADOOP_CONF_DIR, read as Hadoop's `Configuration` reads them.

Files in the order in which Hadoop's clients read them: core-site, mapred-site, yarn-site, each after the defaults of
its own kind; a later one overrides, unless the earlier said `<final>`. `${name}`, `${env.NAME}` and
`${env.NAME:-default}` are substituted (fewer than 20 times); XInclude is followed. What no file sets falls back to
`quicksilver.common.hadoop.defaults`.
"""

from __future__ import annotations

import getpass
import math
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from quicksilver.common.address import Address, parse_address
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop import yarn_env
from quicksilver.common.hadoop.defaults import DEFAULTS, DEFAULTS_BELOW, NEW_NAMES
from quicksilver.common.hadoop.managed import newest
from quicksilver.common.hadoop.xml import Ignored, Property, read_site, trimmed

_CLIENT_FILES: Final = ("core-site.xml", "mapred-site.xml", "yarn-site.xml")
_RM_FILES: Final = ("yarn-site.xml", "core-site.xml", "yarn-site.xml")
"""After all defaults; core-site once more than at first (ResourceManager.serviceInit)."""
_VARIABLE: Final = re.compile(r"\$\{([^}$ ]+)\}")
_ENV: Final = re.compile(r"env\.(.+?)(?:(:?-)(.*))?", re.DOTALL)
_MAX_SUBSTITUTIONS: Final = 20
_UNIT_NS: Final = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
_DURATION: Final = re.compile(r"(.*?)(ns|us|ms|s|m|h|d)?", re.DOTALL)
_DIGITS: Final = re.compile(r"[+-]?\d+")
_HEX: Final = re.compile(r"(-?)0[xX]([+-]?)([0-9a-fA-F]+)")


@dataclass(frozen=True, slots=True)
class HadoopConf:
    """The effective properties of one configuration directory."""

    directory: Path
    properties: Mapping[str, Property]
    env: Mapping[str, str]
    system: Mapping[str, str] = field(default_factory=dict)
    """System properties of the daemon's JVM, as far as they are quicksilver's."""
    finals: Mapping[str, Property] = field(default_factory=dict)
    """What a file says for good; it need not have a value."""
    ignored: tuple[Ignored, ...] = ()

    def raw(self, name: str) -> str | None:
        """Return the value of `name` as written; None when neither a file nor the defaults have it."""
        entry = self.properties.get(name)
        return entry.value if entry else DEFAULTS.get(name)

    def untrimmed(self, name: str) -> str | None:
        """Return the substituted value with its blanks, which Hadoop compares in a few properties."""
        raw = self.raw(name)
        return None if raw is None else self._substitute(raw)

    def text(self, name: str) -> str | None:
        """Return the substituted value of `name`; None when neither a file nor the defaults have it."""
        value = self.untrimmed(name)
        return None if value is None else trimmed(value)

    def word(self, name: str) -> str:
        """Return one of several words in capitals, for properties of which Hadoop takes any case, but no blanks."""
        return (self.untrimmed(name) or "").upper()

    def place(self, name: str) -> str:
        """Say where `name` is set: file, line and property."""
        entry = self.properties.get(name)
        where = f"{entry.file}:{entry.line}" if entry else f"{self.directory} (Hadoop's default)"
        return f"{where}: {name}"

    def required(self, name: str) -> str:
        """Return the value of `name`; raises SettingsError when there is none or it is empty."""
        value = self.text(name)
        if not value:
            place = str(self.directory / _site_of(name))
            raise SettingsError(f"{name} is not set", place=place, remedy="add this property")
        return value

    def integer(self, name: str) -> int:
        """Return a whole number of 64 bits, decimal or 0x. Raises SettingsError for anything else."""
        value = self.required(name)
        number = _whole(value)
        if number is None:
            raise self._bad(name, value, "a whole number")
        return number

    def boolean(self, name: str, default: bool = False) -> bool:
        """Return true or false; like Hadoop, the default for anything else."""
        value = (self.text(name) or "").lower()
        return value == "true" if value in ("true", "false") else default

    def names(self, name: str) -> list[str]:
        """Return a list, separated by commas or lines, each item once, trimmed and not empty; [] when absent."""
        items = (trimmed(item) for item in re.split("[,\n]", self.text(name) or ""))
        return list(dict.fromkeys(item for item in items if item))

    def duration_s(self, name: str, unit: str = "ms") -> float:
        """Return a time in seconds, cut to whole `unit`, which is meant when the value has none (ns us ms s m h d)."""
        value = self.required(name)
        match = _DURATION.fullmatch(value.lower())
        number = _whole(match[1], hexadecimal=False) if match else None
        if match is None or number is None:
            raise self._bad(name, value, f"a time such as 10s (plain numbers are {unit})")
        whole = abs(number) * _UNIT_NS[match[2] or unit] // _UNIT_NS[unit]
        return math.copysign(whole * _UNIT_NS[unit] / 1e9, number)

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
        rm_id = rm_id or self.rm_id()
        if rm_id is None:
            raise SettingsError(
                f"there are several ResourceManagers ({', '.join(self.rm_ids())})",
                place=self.place("yarn.resourcemanager.ha.rm-ids"),
                remedy="say which one is meant: set yarn.resourcemanager.ha.id, or rm_id in quicksilver.yaml",
            )
        if rm_id not in self.rm_ids():
            raise SettingsError(
                f"no ResourceManager has the id {rm_id}",
                place=self.place("yarn.resourcemanager.ha.rm-ids"),
                remedy=f"take one of {', '.join(self.rm_ids())}",
            )
        if self.text(f"{name}.{rm_id}"):
            return parse_address(self.required(f"{name}.{rm_id}"), self.place(f"{name}.{rm_id}"), _default_port(name))
        host = self.required(f"yarn.resourcemanager.hostname.{rm_id}")
        port = _default_port(name)
        return parse_address(f"{host}:{port}", self.place(f"yarn.resourcemanager.hostname.{rm_id}"))

    @property
    def web_scheme(self) -> str:
        """The scheme of the web servers of YARN's daemons: http, or https."""
        return "https" if self.word("yarn.http.policy") == "HTTPS_ONLY" else "http"

    def rm_web_url(self, rm_id: str | None = None) -> str:
        """Return the URL of the ResourceManager's web server, http or https as `yarn.http.policy` says."""
        secure = self.web_scheme == "https"
        name = "yarn.resourcemanager.webapp.https.address" if secure else "yarn.resourcemanager.webapp.address"
        return f"{self.web_scheme}://{reachable(self.rm_address(name, rm_id))}"

    def nm_web_url(self) -> str:
        """Return the URL of this node's NodeManager web server, on loopback where it binds there."""
        secure = self.web_scheme == "https"
        name = "yarn.nodemanager.webapp.https.address" if secure else "yarn.nodemanager.webapp.address"
        address = self.address(name)
        bound = self.text("yarn.nodemanager.bind-host")
        if bound:
            address = Address(bound, address.port)
        return f"{self.web_scheme}://{reachable(address)}"

    def _bad(self, name: str, value: str, kind: str) -> SettingsError:
        return SettingsError(f"{value!r} is not {kind}", place=self.place(name), remedy="correct the value")

    def with_file(self, file: Path) -> HadoopConf:
        """Return this configuration with a further site file on top, if there is such a file. Raises SettingsError."""
        if not file.is_file():
            return self
        read = read_site(file)
        properties, finals = laid_over(read.properties, self.properties, self.finals)
        ignored = tuple(dict.fromkeys((*self.ignored, *read.ignored)))
        return replace(self, properties=properties, finals=finals, ignored=ignored)

    def _with_defaults(self, names: Iterable[str]) -> HadoopConf:
        """Return this configuration with Hadoop's defaults of these names on top."""
        over = {name for name in names if DEFAULTS[name] and name not in self.finals}
        return replace(self, properties={name: entry for name, entry in self.properties.items() if name not in over})

    def _substitute(self, raw: str) -> str:
        text = raw
        for _ in range(_MAX_SUBSTITUTIONS):
            match = _VARIABLE.search(text)
            value = self._variable(match[1]) if match else None
            if match is None or value is None:
                return text
            if match[0] in value:
                return raw
            text = text[: match.start()] + value + text[match.end() :]
        raise SettingsError(
            f"{raw!r} needs {_MAX_SUBSTITUTIONS} substitutions or more",
            place=str(self.directory),
            remedy="look for properties that refer to each other",
        )

    def _variable(self, name: str) -> str | None:
        if match := _ENV.fullmatch(name):
            value, dash, default = self.env.get(match[1]), match[2], match[3]
            return default if dash and (value is None or (dash == ":-" and not value)) else value
        system = self.system.get(name, self._system(name))
        return self.raw(NEW_NAMES.get(name, name)) if system is None else system

    def _system(self, name: str) -> str | None:
        """Return what Hadoop's own start scripts and the JVM define as system properties."""
        if name == "user.name":
            return self.env.get("HADOOP_USER_NAME") or getpass.getuser()
        if name in ("yarn.log.dir", "hadoop.log.dir"):
            home = self.env.get("HADOOP_HOME", "")
            return self.env.get("HADOOP_LOG_DIR") or (f"{home}/logs" if home else None)
        return {"user.home": str(Path.home()), "java.io.tmpdir": tempfile.gettempdir()}.get(name)


def laid_over(
    read: Iterable[Property], properties: Mapping[str, Property], finals: Mapping[str, Property]
) -> tuple[dict[str, Property], dict[str, Property]]:
    """Return effective properties and the final ones after more were read, all by their new names."""
    properties, finals = dict(properties), dict(finals)
    for each in read:
        name = NEW_NAMES.get(each.name, each.name)
        if name in finals:
            continue
        if not each.empty:
            properties[name] = each
        if each.final:
            finals[name] = each
    return properties, finals


def load_hadoop_conf(
    directory: Path | None = None,
    env: Mapping[str, str] | None = None,
    *,
    resourcemanager: bool = False,
    hdfs: bool = False,
) -> HadoopConf:
    """Read a configuration directory: the given one, else $HADOOP_CONF_DIR, $YARN_CONF_DIR, /etc/hadoop/conf.

    With a `*` in it the newest directory that matches (`managed.newest`).

    resourcemanager: as the ResourceManager reads it, with the system properties that yarn-env.sh gives it; hdfs: as
    clients of HDFS read it, with hdfs-site.xml.

    Raises SettingsError when there is none, when it has no site file, or when Hadoop cannot read a file.
    """
    env = os.environ if env is None else env
    folder = newest(directory or _directory(env))
    if not any((folder / name).is_file() for name in _CLIENT_FILES):
        raise SettingsError(
            "no core-site.xml and no yarn-site.xml there" if folder.is_dir() else "no such directory",
            place=str(folder),
            remedy="name the directory of the cluster's site files"
            if directory
            else "set HADOOP_CONF_DIR to the directory of the cluster's site files, or name it with --conf-dir",
        )
    conf = HadoopConf(folder, {}, yarn_env.with_node(folder, env))
    if resourcemanager:
        conf = replace(conf, system=yarn_env.rm_properties(folder))
    for name in _RM_FILES if resourcemanager else (*_CLIENT_FILES, "hdfs-site.xml")[: None if hdfs else -1]:
        conf = conf if resourcemanager else conf._with_defaults(DEFAULTS_BELOW[name])
        conf = conf.with_file(folder / name)
    return conf


def _whole(text: str, *, hexadecimal: bool = True) -> int | None:
    """Return a number of 64 bits as Java's Long.parseLong reads it, or with 0x; None for anything else."""
    if _DIGITS.fullmatch(text):
        number = int(text)
    elif hexadecimal and (match := _HEX.fullmatch(text)) and not (match[1] and match[2]):
        number = int(match[1] + match[2] + match[3], 16)
    else:
        return None
    return number if -(2**63) <= number < 2**63 else None


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
