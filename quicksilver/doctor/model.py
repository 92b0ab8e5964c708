"""The doctor's facts and findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Literal

from policies.config.policy_set import Policies
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import HadoopConf
from quicksilver.common.http.security import SecuritySettings
from quicksilver.doctor.site_edit import property_xml
from rm_proxy.config import ProxySettings
from sidecar.config import SidecarSettings
from sidecar.tracker.config import TrackerSettings

Role = Literal["resourcemanager", "nodemanager", "client"]
RM: Final[Role] = "resourcemanager"
NM: Final[Role] = "nodemanager"
CLIENT: Final[Role] = "client"
YARN_SITE: Final = "yarn-site.xml"
SETTINGS: Final = "quicksilver.yaml"
Scheduler = Literal["capacity", "fair", "fifo", "other"]
SCHEDULER_CLASS: Final = "yarn.resourcemanager.scheduler.class"
CALCULATOR: Final = "yarn.scheduler.capacity.resource-calculator"
_SCHEDULERS: Final[dict[str, Scheduler]] = {
    "CapacityScheduler": "capacity",
    "FairScheduler": "fair",
    "FifoScheduler": "fifo",
}


class Severity(IntEnum):
    """How bad a finding is."""

    NOTE = 0
    """Good to know; nothing breaks."""
    WARNING = 1
    """Works, but worse than it could, or breaks under some load."""
    ERROR = 2
    """Would break something, or prevents quicksilver from working."""


@dataclass(frozen=True, slots=True)
class DoctorPlace:
    """Where something was found: a host or role, and file and line, or a URL in place of the file."""

    host: str
    role: str = ""
    directory: Path | None = None
    """The configuration directory, where files were read."""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{self.host} ({where})" if where and self.host else where or self.host


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do: properties to put into or take out of a file, who has to be restarted, or words alone."""

    text: str = ""
    file: str = ""
    put: Mapping[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    restart: str = ""
    """Which daemons read it only when they start; "" for none."""

    @property
    def xml(self) -> str:
        """The exact XML to add; "" when there is none."""
        return property_xml(self.put) if self.file.endswith(".xml") else ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. `code` is stable: docs/doctor.md has all."""

    code: str
    severity: Severity
    state: str
    """What is, as a sentence without a full stop."""
    norm: str
    """What should be."""
    why: str
    """What breaks."""
    places: tuple[DoctorPlace, ...]
    remedy: Remedy
    property: str = ""

    def data(self) -> dict[str, Any]:
        """Return it for --json."""
        remedy = self.remedy
        return {
            "code": self.code,
            "severity": self.severity.name.lower(),
            "property": self.property,
            "found": self.state,
            "wanted": self.norm,
            "why": self.why,
            "places": [
                {
                    "host": place.host,
                    "role": place.role,
                    "directory": str(place.directory) if place.directory else None,
                    "file": place.file,
                    "line": place.line or None,
                }
                for place in self.places
            ],
            "remedy": {
                "text": remedy.text,
                "file": remedy.file,
                "put": dict(remedy.put),
                "remove": list(remedy.remove),
                "xml": remedy.xml,
                "restart": remedy.restart,
            },
        }


@dataclass(frozen=True, slots=True)
class Unchecked:
    """Something that could not be checked."""

    subject: str
    why: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.subject}: {self.why}" + (f"; {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class DoctorSite:
    """The configuration of one daemon, or of the clients: its files where they could be read, otherwise its REST."""

    role: Role
    host: str
    conf: HadoopConf
    url: str = ""
    """Where the daemon was asked, when no file could be read."""
    ha_id: str | None = None
    """Of a ResourceManager of several."""

    @property
    def from_files(self) -> bool:
        """Whether `conf` is from files."""
        return not self.url

    @property
    def scheduler(self) -> Scheduler:
        """Which scheduler runs in a ResourceManager: whoever judges a property of one asks this first."""
        name = self.text(SCHEDULER_CLASS, "CapacityScheduler")
        return next((kind for end, kind in _SCHEDULERS.items() if name.endswith(end)), "other")

    @property
    def counts_vcores(self) -> bool:
        """Whether the ResourceManager's scheduler plans with vcores, and not by memory alone.

        The Fair Scheduler does under every queue policy (FSAppAttempt.assignContainer tests all resources), the
        FifoScheduler never (FifoScheduler.assignContainer); of an unknown one it is taken for granted.
        """
        kind = self.scheduler
        return kind != "fifo" and (kind != "capacity" or self.text(CALCULATOR).endswith("DominantResourceCalculator"))

    def text(self, name: str, default: str = "") -> str:
        """Return a value, `default` where none is set."""
        return self.conf.text(name) or default

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean; as Hadoop, the default for anything that is neither true nor false."""
        return self.conf.boolean(name, default)

    def number(self, name: str, default: int) -> int:
        """Return a whole number, or a time with a unit in ms; else the default, as it is no business of ours."""
        with suppress(SettingsError):
            return self.conf.integer(name)
        with suppress(SettingsError):
            return round(self.conf.duration_s(name) * 1000)
        return default

    def place(self, name: str = "") -> DoctorPlace:
        """Return where `name` is set, or where the configuration is."""
        if not self.from_files:
            return DoctorPlace(self.host, self.role, None, self.url)
        entry = self.conf.properties.get(name)
        if entry is None:
            return DoctorPlace(self.host, self.role, self.conf.directory, str(self.conf.directory))
        return DoctorPlace(self.host, self.role, entry.file.parent, str(entry.file), entry.line)

    def file_of(self, name: str, default: str = YARN_SITE) -> str:
        """Return the name of the file that sets `name` now, otherwise `default`."""
        entry = self.conf.properties.get(name) if self.from_files else None
        return entry.file.name if entry else default


@dataclass(frozen=True, slots=True)
class DoctorSettings:
    """quicksilver.yaml, as far as it can be used."""

    path: Path | None = None
    mistakes: tuple[str, ...] = ()
    """Lines as `file:line:column: what`; the sections below are the defaults then."""
    notes: tuple[str, ...] = ()
    proxy: ProxySettings = field(default_factory=ProxySettings)
    sidecar: SidecarSettings = field(default_factory=SidecarSettings)
    tracker: TrackerSettings = field(default_factory=TrackerSettings)
    tracked: bool = False
    """Whether there is a `tracker:` section."""
    proxied: bool = False
    """Whether there is a `proxy:` section."""
    security: SecuritySettings = field(default_factory=SecuritySettings)
    policies: Policies | None = None

    @property
    def place(self) -> DoctorPlace:
        """Where the settings stand."""
        return DoctorPlace("", SETTINGS, self.path.parent if self.path else None, str(self.path or SETTINGS))


@dataclass(frozen=True, slots=True)
class DoctorDaemon:
    """A running ResourceManager or NodeManager, according to its REST."""

    role: Role
    host: str
    url: str
    version: str = ""
    """Hadoop's, "" where it could not be read."""
    conf: Mapping[str, str] | None = None
    """What it runs with, substituted; None where it could not be read."""
    programmatic: frozenset[str] = frozenset()
    """Names that the daemon set by itself, after its files."""
    skew_s: float | None = None
    """Its clock minus ours, give or take a second."""
    ha_id: str | None = None
    ha_state: str = ""


@dataclass(frozen=True, slots=True)
class DoctorNode:
    """A node of the cluster, according to the ResourceManager, the proxy and its sidecar."""

    id: str
    state: str = "RUNNING"
    version: str = ""
    health: str = ""
    usable: bool | None = None
    """Whether the proxy may place queueable containers there; None where the proxy was not asked."""
    why_unusable: str = ""
    sidecar_url: str = ""
    sidecar_version: str = ""
    passes: bool | None = None
    """Whether a connection to the node's port came to the sidecar; None where that could not be tried."""
    sidecar_skew_s: float | None = None


@dataclass(frozen=True, slots=True)
class DoctorProxy:
    """A proxy's answer to /v1/health."""

    url: str
    version: str = ""
    mode: str = ""
    listen: str = ""
    upstream: str = ""
    problems: tuple[str, ...] = ()
    skew_s: float | None = None
    error: str = ""
    """Why it did not answer; "" when it did."""
    ha_id: str | None = None
    """Of the ResourceManager that it should stand in front of, where there are several."""


@dataclass(frozen=True, slots=True)
class DoctorJob:
    """A running MapReduce job, with the scheduler address that its configuration names."""

    id: str
    scheduler: str
    task_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Live:
    """Facts about the running daemons."""

    rms: tuple[DoctorDaemon, ...] = ()
    nms: tuple[DoctorDaemon, ...] = ()
    nodes: tuple[DoctorNode, ...] = ()
    proxies: tuple[DoctorProxy, ...] = ()
    jobs: tuple[DoctorJob, ...] = ()
    queues: tuple[str, ...] = ()
    """Leaf queues as full paths; () where they could not be read."""
    own_version: str = ""


@dataclass(frozen=True, slots=True)
class Secret:
    """A file that others must not read. `mode`: its permission bits; None where it is not there."""

    path: Path
    name: str
    mode: int | None


@dataclass(frozen=True, slots=True)
class DoctorMachine:
    """This machine: facts that only a process on it can see. None: could not be checked."""

    host: str
    is_node: bool = False
    """Whether the NodeManager's side was to be checked (`--node`)."""
    is_proxy: bool = False
    """Whether the proxy listens, or would listen, here."""
    root: bool = False
    systemd_units: frozenset[str] | None = None
    """Units of quicksilver that systemd knows; None without systemd."""
    open_files: int | None = None
    """Limit of the proxy's process, or of this one where it does not run."""
    store_dir: Path | None = None
    store_mode: int | None = None
    store_writable: bool | None = None
    secrets: tuple[Secret, ...] = ()
    memory_mb: int = 0
    cores: int = 0
    cgroup: str = ""
    """v1, v2, or "" for none."""
    resizer: str | None = None
    """What resizes containers here; "" for nothing, None where it was not tried."""
    resizer_why: tuple[str, ...] = ()
    journal_dir: Path | None = None
    """Where the sidecar writes its journal; None where it has no place for it."""
    journal_writable: bool | None = None
    listeners: Mapping[str, str] | None = None
    """Listeners on the NodeManager's ports, on addresses that others reach: `host:port` to a process name."""
    listen_addresses: Mapping[str, tuple[str, ...]] | None = None
    """Where the sidecar listens: the name that says so, and the addresses for which it stands on this machine."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The whole picture."""

    settings: DoctorSettings = field(default_factory=DoctorSettings)
    client: DoctorSite | None = None
    rms: tuple[DoctorSite, ...] = ()
    nms: tuple[DoctorSite, ...] = ()
    live: Live | None = None
    machine: DoctorMachine | None = None
    names: frozenset[str] = frozenset()
    """Names of properties that Hadoop knows."""
    unchecked: tuple[Unchecked, ...] = ()

    @property
    def sites(self) -> tuple[DoctorSite, ...]:
        """All configurations."""
        return ((self.client,) if self.client else ()) + self.rms + self.nms


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Join findings that differ in their places only; errors first, then in the order in which they came."""
    groups: dict[object, Finding] = {}
    for finding in findings:
        remedy = finding.remedy
        problem = (finding.code, finding.severity, finding.property, finding.state, finding.norm)
        key = (problem, remedy.text, remedy.file, tuple(remedy.put.items()), remedy.remove, remedy.restart)
        before = groups.get(key)
        places = before.places if before else ()
        new = tuple(place for place in finding.places if place not in places)
        groups[key] = replace(before or finding, places=places + new)
    return sorted(groups.values(), key=lambda finding: -finding.severity)
