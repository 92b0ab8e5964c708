"""Settings of the tracker relay: section `tracker` of quicksilver.yaml, completed from Hadoop's own configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import Field

from policies.settings_model import SettingsModel
from quicksilver.common.address import Address, AddressText
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import HadoopConf, reachable
from sidecar.proxy_urls import proxy_urls
from sidecar.tracker.relay import ContainerSize

TRACKER_ADDRESS: Final = "yarn.resourcemanager.resource-tracker.address"
RM_HOSTNAME: Final = "yarn.resourcemanager.hostname"
RM_PORT: Final = 8031
NM_VCORES: Final = "yarn.nodemanager.resource.cpu-vcores"
NM_MEMORY_MB: Final = "yarn.nodemanager.resource.memory-mb"
_DETECTS: Final = "yarn.nodemanager.resource.detect-hardware-capabilities"
_STRICT: Final = "yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage"
_ELASTIC: Final = "yarn.nodemanager.elastic-memory-control.enabled"


class RmEnds(SettingsModel):
    """The two addresses of the relay to one of several ResourceManagers."""

    listen: AddressText | None = None
    """Where the NodeManager connects; default: yarn.resourcemanager.resource-tracker.address.ID."""
    upstream: AddressText | None = None
    """Where that ResourceManager listens; default: port 8031 of yarn.resourcemanager.hostname.ID."""


class TrackerSettings(SettingsModel):
    """Settings of an admin; addresses have defaults from HADOOP_CONF_DIR, sizes do not change unless set."""

    listen: AddressText | None = None
    """Where the NodeManager connects; default: yarn.resourcemanager.resource-tracker.address."""
    upstream: AddressText | None = None
    """Where the ResourceManager's resource tracker listens; default: port 8031 of yarn.resourcemanager.hostname."""
    rms: dict[str, RmEnds] = Field({})
    """With high availability `listen` and `upstream` by ResourceManager id, instead of those two."""

    rm_vcores: int | None = Field(None, ge=1)
    """Vcores that the ResourceManager sees (N), of yarn.nodemanager.resource.cpu-vcores (N + extra)."""
    extra_vcores: int | None = Field(None, ge=0)
    """The same as a difference (extra): vcores that the ResourceManager does not see."""
    rm_memory_mb: int | None = Field(None, ge=1)
    """Memory that the ResourceManager sees, of yarn.nodemanager.resource.memory-mb."""
    extra_memory_mb: int | None = Field(None, ge=0)
    """The same as a difference."""
    mark_guaranteed: bool = True
    """Report running OPPORTUNISTIC containers as GUARANTEED in heartbeats, or a busy ResourceManager loses them."""

    report_keys: bool = False
    """Report this node's master keys to the proxies, whose `own_grants` needs them (own-grants.md)."""
    proxy_urls: list[str] = Field([])
    """Where proxies take them; default: port 8390 of each ResourceManager's host."""

    max_connections: int = Field(100, ge=1)
    """Connections at once; a NodeManager has one. More are closed at once with a log line."""
    max_frame_mb: int = Field(128, ge=1, le=1024)
    """The longest Hadoop RPC frame that is relayed (`ipc.maximum.data.length` is 128 MB by default)."""
    buffer_mb: int = Field(1, ge=1, le=64)
    """Bytes that may wait for one side before the other is not read any more."""
    connect_timeout_s: float = Field(10.0, gt=0)
    """How long connecting to the ResourceManager may take."""
    handshake_timeout_s: float = Field(30.0, gt=0)
    """A connection that has not finished its handshake by then is closed."""
    stall_s: float = Field(30.0, ge=3)
    """How long a worker may give no sign of life before it is replaced."""

    def place(self, conf: HadoopConf) -> TrackerPlace:
        """Return the relay's addresses and the hidden size; missing settings come from Hadoop's configuration.

        Raises SettingsError naming the setting or property that is missing or unusable.
        """
        extra = ContainerSize(
            _extra(conf, NM_MEMORY_MB, self.rm_memory_mb, self.extra_memory_mb, "memory_mb"),
            _extra(conf, NM_VCORES, self.rm_vcores, self.extra_vcores, "vcores"),
        )
        _check_cgroups(conf, extra)
        return TrackerPlace(self._ends(conf), extra)

    def key_urls(self, conf: HadoopConf, scheme: str) -> list[str]:
        """Return where proxies take keys."""
        return [url.rstrip("/") for url in self.proxy_urls or proxy_urls(conf, scheme)]

    def _ends(self, conf: HadoopConf) -> tuple[Ends, ...]:
        if not conf.ha:
            if self.rms:
                raise SettingsError(
                    "there is one ResourceManager only", place="tracker.rms", remedy="set tracker.listen and upstream"
                )
            return (_checked("tracker", "", self._listen(conf), self.upstream or _rm(conf, RM_HOSTNAME)),)
        unknown = self.rms.keys() - set(conf.rm_ids())
        if unknown or self.listen or self.upstream:
            raise SettingsError(
                f"the ResourceManagers are {', '.join(conf.rm_ids())}",
                place=f"tracker.rms.{min(unknown)}" if unknown else "tracker.listen, tracker.upstream",
                remedy="set listen and upstream below tracker.rms, under these ids",
            )
        return tuple(self._ends_of(conf, rm_id) for rm_id in conf.rm_ids())

    def _listen(self, conf: HadoopConf) -> Address:
        return self.listen or conf.rm_address(TRACKER_ADDRESS)

    def _ends_of(self, conf: HadoopConf, rm_id: str) -> Ends:
        ends = self.rms.get(rm_id, RmEnds())
        listen = ends.listen or conf.rm_address(TRACKER_ADDRESS, rm_id)
        upstream = ends.upstream or _rm(conf, f"{RM_HOSTNAME}.{rm_id}")
        return _checked(f"tracker.rms.{rm_id}", rm_id, listen, upstream)


@dataclass(frozen=True, slots=True)
class Ends:
    """The relay to one ResourceManager; `rm_id` is "" where there is only one."""

    rm_id: str
    listen: Address
    upstream: Address


@dataclass(frozen=True, slots=True)
class TrackerPlace:
    """The addresses of one node's relay, and the part of the node that the ResourceManager does not see."""

    ends: tuple[Ends, ...]
    extra: ContainerSize


def _checked(place: str, rm_id: str, listen: Address, upstream: Address) -> Ends:
    if reachable(listen) == reachable(upstream):
        raise SettingsError(
            f"the relay would relay to itself: {upstream} is also where it listens",
            place=place,
            remedy=f"let {TRACKER_ADDRESS} of the NodeManager name a loopback port, or set {place}.upstream",
        )
    return Ends(rm_id, listen, upstream)


def _rm(conf: HadoopConf, name: str) -> Address:
    host = conf.required(name)
    if host in ("0.0.0.0", "::"):
        raise SettingsError(
            "the ResourceManager's host is not known", place=conf.place(name), remedy="set it, or tracker.upstream"
        )
    return Address(host, RM_PORT)


def _extra(conf: HadoopConf, name: str, seen: int | None, extra: int | None, setting: str) -> int:
    """Return the hidden amount of one resource."""
    if seen is not None and extra is not None:
        raise SettingsError(
            f"both rm_{setting} and extra_{setting} are set", place="tracker", remedy="take one of them away"
        )
    if seen is None and not extra:
        return 0
    believed = conf.integer(name)
    if believed <= 0 and conf.boolean(_DETECTS):
        if extra is not None:
            return extra
        raise SettingsError(
            "the NodeManager detects its size by itself",
            place=conf.place(name),
            remedy=f"set tracker.extra_{setting} instead of rm_{setting}",
        )
    hidden = extra if extra is not None else believed - (seen or 0)
    if not 0 <= hidden < believed:
        raise SettingsError(
            f"the NodeManager has {believed}, so the ResourceManager cannot see {believed - hidden}",
            place=f"tracker.{'extra' if extra is not None else 'rm'}_{setting}",
            remedy=f"raise {name}, or correct the setting",
        )
    return hidden


def _check_cgroups(conf: HadoopConf, extra: ContainerSize) -> None:
    """Refuse properties with which the NodeManager would compute from its own, larger size."""
    for hidden, name, why in (
        (extra.vcores, _STRICT, "each container would get less CPU than its vcores, by N / (N + extra)"),
        (extra.memory_mb, _ELASTIC, "all containers together would be let to more memory than the node has"),
    ):
        if hidden and conf.boolean(name):
            raise SettingsError(why, place=conf.place(name), remedy="set it to false on this node")
