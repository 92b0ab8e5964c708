"""Settings of the sidecar: section `sidecar` of quicksilver.yaml, completed from Hadoop's own configuration."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from policies.model import Resources
from policies.settings_model import SettingsModel
from quicksilver.common.address import Address, AddressText
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import HadoopConf, reachable
from quicksilver.common.kerberos.keytab import Keytab
from sidecar.memory.memory_guard import GuardRules, rules_for
from sidecar.node.container import Rules
from sidecar.proxy_urls import proxy_urls

NM_ADDRESS: Final = "yarn.nodemanager.address"
NM_WEB: Final = "yarn.nodemanager.webapp.address"
BIND_HOST: Final = "yarn.nodemanager.bind-host"
REST_PORT: Final = 8391
REDIRECT_PORT: Final = 8392
_MB: Final = 2**20
_NM_VCORES: Final = "yarn.nodemanager.resource.cpu-vcores"
_NM_MEMORY_MB: Final = "yarn.nodemanager.resource.memory-mb"


class SidecarSettings(SettingsModel):
    """Settings of an admin; each has a default or comes from HADOOP_CONF_DIR."""

    intercept: Literal["bind_host", "nftables"] = "bind_host"
    """How starts reach the sidecar. bind_host: the NodeManager is on loopback and the sidecar has its address;
    nftables: the NodeManager keeps its address, and a rule redirects its connections to the sidecar."""
    listen: AddressText | None = None
    """Where application masters connect; default: yarn.nodemanager.address; with nftables where the rule redirects to,
    default 0.0.0.0:8392."""
    upstream: AddressText | None = None
    """Where the NodeManager listens; default: yarn.nodemanager.bind-host with the port of yarn.nodemanager.address."""
    web_listen: AddressText | None = None
    """Where the NodeManager's web pages are reached; default: yarn.nodemanager.webapp.address."""
    web_upstream: AddressText | None = None
    """Where its web server listens; default: yarn.nodemanager.bind-host with the same port."""
    node_id: str | None = None
    """YARN's name of this node, host:port; default: as the NodeManager reports, until then yarn.nodemanager.address."""
    rest_listen: AddressText | None = None
    """REST and metrics of the sidecar; default: port 8391 of the host of `listen`."""
    rest_url: str | None = None
    """Where the proxy reaches the REST; default: http:// (https:// with TLS) and `rest_listen`."""
    proxy_url: str | None = None
    """Where the proxy takes reports; default: port 8390 of the ResourceManager's host."""
    proxy_urls: list[str] = Field([])
    """With high availability, instead of `proxy_url`: where each ResourceManager's proxy takes reports; default: port
    8390 of each ResourceManager's host."""

    state_dir: Path | None = None
    """Directory of the journal, from which a restarted sidecar recovers its containers; default:
    /var/lib/quicksilver/sidecar or /var/lib/quicksilver, whichever is there and writable, else there is no journal."""

    memory_mb: int | None = Field(None, ge=1)
    """Memory that containers may use; default: yarn.nodemanager.resource.memory-mb."""
    vcores: int | None = Field(None, ge=1)
    """Vcores that containers may use; default: yarn.nodemanager.resource.cpu-vcores (set it where those are raised).

    Where containers share the CPU, the default is no more than the machine has.
    """
    count_vcores: bool = True
    """Whether vcores limit starts; DefaultResourceCalculator gives each guaranteed container 1, at any request."""
    reserve_mb: int = Field(512, ge=0)
    """Physical memory that stays free when a queueable container starts."""
    settle_s: float = Field(2.0, ge=0)
    """Time after its start during which a container's memory is taken as missing from the measured use."""

    announce_wait_s: float = Field(1.0, ge=0, le=30)
    """How long an opportunistic start waits for the proxy's announcement before it passes as Hadoop's own."""
    announce_keep_s: float = Field(900.0, gt=0)
    """How long an announcement waits for its start."""
    announced_max: int = Field(10_000, ge=1)
    """Limit of stored announcements."""
    expiry_margin_s: float = Field(30.0, ge=0)
    """Time before the expiry of its container token at which a held start is given up."""
    queue_max_length: int = Field(1000, ge=1)
    """Limit of waiting starts."""
    queue_max_mb: int = Field(256, ge=1)
    """Limit of the summed size of their launch requests."""
    kill_wait_s: float = Field(10.0, gt=0, le=120)
    """How long a guaranteed start waits for the end of killed containers before it is forwarded regardless."""
    kill_poll_s: float = Field(0.02, gt=0, le=5)
    """How often the NodeManager is asked whether a killed container is gone."""
    kill_localizing_wait_s: float = Field(60.0, ge=0, le=600)
    """How long a container's stop waits for the end of its localization, which must not be interrupted."""

    resizer: Literal["auto", "cgroup1", "cgroup2", "docker", "signals", "none"] = "auto"
    """The means to shrink running containers; auto: the first that works of cgroup2, cgroup1, signals."""
    cgroup: str = Field("quicksilver", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@/-]*$")
    """Control group for the containers of all sidecars of this machine, below the mount of each controller."""
    docker_url: str | None = None
    """Docker's socket for `resizer: docker`; default: unix:///var/run/docker.sock."""
    shrunk_high_ratio: float = Field(0.0, ge=0, le=1)
    """Part of the memory that a container uses as it is shrunk, above which the kernel takes pages from it until it is
    restored (memory.high of cgroup v2); 0: its memory is left alone."""
    shrunk_reclaim_ratio: float = Field(0.0, ge=0, le=1)
    """Part of its memory that the kernel is asked for once, as it is shrunk (memory.reclaim); 0: none."""
    measure_s: float = Field(1.0, gt=0, le=10)
    """How often the CPU that running containers were given is read."""
    am_vcores: float | None = Field(None, ge=0)
    """Vcores that an application master counts for where containers share the CPU; default: as it asked."""
    guard_last_resort_mb: int | None = Field(None, ge=0)
    """Less free physical memory kills a queueable container; default: a quarter of reserve_mb or more, by size."""
    guard_squeeze_stall_ratio: float = Field(0.1, gt=0, le=1)
    """Part of the time stalled for memory (PSI, full, avg10) above which nothing new starts while memory is low."""
    guard_last_resort_stall_ratio: float = Field(0.4, gt=0, le=1)
    """Above it, for `guard_stall_wait_s` and below the reserve, a queueable container is killed."""
    guard_stall_wait_s: float = Field(5.0, ge=0)
    """How long such a stall has to last."""
    guard_calm_s: float = Field(5.0, ge=0)
    """How long memory must be sufficient again before containers start."""
    guard_settle_s: float = Field(3.0, gt=0)
    """Time between two kills by the memory guard."""
    fence_daemon_cores: float | None = Field(None, gt=0)
    """Cores that daemons beside the containers can have when all are busy; default: a tenth, at least half a core."""
    fence_cores: float | None = Field(None, gt=0)
    """Bound of the CPU of all containers together; default: none."""
    fence_memory: bool = False
    """Whether the kernel bounds all containers together to the physical memory that the daemons do not need."""
    fence_keep_mb: int = Field(512, ge=0)
    """Memory left to daemons beyond their use at the time when that bound is set."""
    oom_score_queueable: int = Field(500, ge=0, le=1000)
    """The least oom_score_adj of queueable containers where containers are resized: the kernel takes them first."""

    report_s: float = Field(2.0, gt=0, le=60)
    """How often the proxy gets a report; on change at once, of a start alone within 0.2 s."""
    coalesce_s: float = Field(0.02, ge=0, le=1)
    """Changes within this time go into one report."""
    report_timeout_s: float = Field(3.0, gt=0)
    """How long a report may take."""
    targets_keep_s: float = Field(10.0, gt=0)
    """How long the proxy's limits (shedding, policing) hold when nothing is heard of it; none hold after that."""
    events_max: int = Field(20_000, ge=100)
    """Events stored for a proxy that does not answer; beyond that the oldest are dropped and counted."""

    ping_s: float = Field(10.0, gt=0)
    """How often a session without its client is pinged."""
    max_connections: int = Field(1000, ge=1)
    """Connections of application masters at once; more are closed at once with a log line."""
    web_connections: int = Field(200, ge=1)
    """Connections to the web port at once."""
    rest_connections: int = Field(200, ge=1)
    """REST connections at once."""
    max_frame_mb: int = Field(128, ge=1, le=1024)
    """The longest Hadoop RPC frame that is relayed (`ipc.maximum.data.length` is 128 MB by default)."""
    buffer_mb: int = Field(1, ge=1, le=64)
    """Bytes that one connection may have waiting in either direction before its other side is not read any more."""
    connect_timeout_s: float = Field(10.0, gt=0)
    """How long connecting to the NodeManager may take."""
    handshake_timeout_s: float = Field(30.0, gt=0)
    """A connection that has not finished its handshake by then is closed."""
    watch_poll_s: float = Field(0.05, gt=0, le=1)
    """How often a container's pid file is looked for."""
    reconcile_s: float = Field(5.0, gt=0)
    """How often the NodeManager's own list of containers is compared; each second while an end cannot be seen else."""
    kerberos_principal: str | None = None
    """Principal for the NodeManager's web server where that wants Kerberos; `_HOST` is this host's name (own)."""
    kerberos_keytab: Path | None = None
    """The file with that principal's key, which only this user may read (own)."""
    rest_timeout_s: float = Field(5.0, gt=0)
    """How long a call of the NodeManager's REST may take."""

    def rules(
        self,
        capacity: Resources,
        extra_vcores: float | None = None,
        nm_vcores: float | None = None,
        nm_memory_mb: int | None = None,
        overcommit: bool = False,
    ) -> Rules:
        """Return the rules of the node machine.

        extra_vcores: where containers share the CPU, how many more may start; nm_vcores, nm_memory_mb: those of the
        NodeManager; overcommit: whether guaranteed containers may take allocated memory that is not used.
        """
        return Rules(
            strict=False,
            capacity=capacity,
            count_vcores=self.count_vcores,
            reserve_mb=self.reserve_mb,
            settle_s=self.settle_s,
            announce_wait_s=self.announce_wait_s,
            announce_keep_s=self.announce_keep_s,
            announced_max=self.announced_max,
            expiry_margin_s=self.expiry_margin_s,
            queue_max_length=self.queue_max_length,
            queue_max_bytes=self.queue_max_mb * _MB,
            kill_wait_s=self.kill_wait_s,
            shares_cpu=extra_vcores is not None,
            extra_vcores=extra_vcores or 0.0,
            nm_vcores=nm_vcores,
            nm_memory_mb=nm_memory_mb,
            overcommit=overcommit,
            targets_keep_s=self.targets_keep_s,
            am_vcores=self.am_vcores,
        )

    def cores(self, capacity: Resources) -> Resources:
        """Return the capacity for containers that share the CPU: the machine's vcores at most, or `vcores` if set."""
        there = os.cpu_count() or 1
        return capacity if self.vcores else Resources(capacity.memory_mb, min(capacity.vcores, there))

    def guard_rules(self, total_mb: int) -> GuardRules:
        """Return the memory guard's rules on a machine of `total_mb`. Raises SettingsError where they contradict."""
        base = rules_for(total_mb, self.reserve_mb)
        try:
            return replace(
                base,
                last_resort_mb=base.last_resort_mb if self.guard_last_resort_mb is None else self.guard_last_resort_mb,
                squeeze_stall_ratio=self.guard_squeeze_stall_ratio,
                last_resort_stall_ratio=self.guard_last_resort_stall_ratio,
                stall_wait_s=self.guard_stall_wait_s,
                calm_s=self.guard_calm_s,
                settle_s=self.guard_settle_s,
                kill_wait_s=self.kill_wait_s,
            )
        except ValueError as error:
            raise SettingsError(str(error), place="sidecar.guard_*", remedy="lower it, or raise the other") from error

    def keytab(self) -> Keytab | None:
        """Return the Kerberos login that the settings name, None without. Raises SettingsError, KerberosError."""
        return Keytab.of(self.kerberos_principal, self.kerberos_keytab, "sidecar")

    def place(self, conf: HadoopConf, scheme: str = "http") -> Place:
        """Return the identity of this sidecar; missing settings come from Hadoop's configuration.

        scheme: of REST, http or https.

        Raises SettingsError naming the setting or property, when one is missing or the sidecar would relay to itself.
        """
        public, listen, web_listen = self._listening(conf)
        bound = conf.text(BIND_HOST) or "127.0.0.1"
        loopback = reachable(Address(bound, 0)).host
        upstream = self.upstream or Address(loopback, conf.address(NM_ADDRESS).port)
        web_upstream = self.web_upstream or Address(loopback, conf.address(NM_WEB).port)
        _check_no_loop("listen", public, upstream)
        _check_no_loop("web_listen", web_listen, web_upstream)
        self._check_schemes(scheme)
        rest = self.rest_listen or Address(public.host, REST_PORT)
        set_by_admin = self.proxy_urls or ([self.proxy_url] if self.proxy_url else [])
        urls = tuple(url.rstrip("/") for url in set_by_admin or proxy_urls(conf, scheme))
        return Place(
            listen=listen,
            upstream=upstream,
            web_listen=web_listen,
            web_upstream=web_upstream,
            rest=rest,
            rest_url=(self.rest_url or f"{scheme}://{reachable(rest)}").rstrip("/"),
            proxy_url=urls[0],
            proxy_urls=urls,
            node_id=self.node_id or str(public),
            public=public,
            capacity=self._capacity(conf),
            nm_vcores=_believed(conf, _NM_VCORES, 8),
            nm_memory_mb=_believed(conf, _NM_MEMORY_MB, 8192),
            local_dirs=tuple(Path(name.removeprefix("file://")) for name in conf.names("yarn.nodemanager.local-dirs")),
        )

    def _check_schemes(self, scheme: str) -> None:
        """Raise SettingsError when a URL has another scheme than REST."""
        set_urls = [("rest_url", self.rest_url), ("proxy_url", self.proxy_url)]
        for name, url in (*set_urls, *(("proxy_urls", url) for url in self.proxy_urls)):
            if url is not None and not url.startswith(f"{scheme}://"):
                message, remedy = f"{url} does not begin with {scheme}://", "write it as section `security` has it"
                raise SettingsError(message, place=f"sidecar.{name}", remedy=remedy)

    def _listening(self, conf: HadoopConf) -> tuple[Address, Address, Address | None]:
        """Return the NodeManager's address as others know it, and where the sidecar listens in its place."""
        if self.intercept == "bind_host":
            listen = self.listen or _fixed(conf, NM_ADDRESS, "sidecar.listen")
            return listen, listen, self.web_listen or _fixed(conf, NM_WEB, "sidecar.web_listen")
        bound = conf.text(BIND_HOST)
        if bound != "0.0.0.0" and self.upstream is None:
            raise SettingsError(
                f"the NodeManager binds to {bound or 'its own name'}: beside the rule it cannot be reached there",
                place=conf.place(BIND_HOST),
                remedy="let it be 0.0.0.0 (hadoop-conf/nftables), or set sidecar.upstream",
            )
        return _fixed(conf, NM_ADDRESS, "sidecar.intercept"), self.listen or Address("0.0.0.0", REDIRECT_PORT), None

    def _capacity(self, conf: HadoopConf) -> Resources:
        memory_mb = self.memory_mb or _amount(conf, _NM_MEMORY_MB, "memory_mb", 8192)
        vcores = self.vcores or _amount(conf, _NM_VCORES, "vcores", 8)
        return Resources(memory_mb, vcores)


@dataclass(frozen=True, slots=True)
class Place:
    """Identity of one sidecar: addresses, the node's name and size, the NodeManager's local directories."""

    listen: Address
    upstream: Address
    web_listen: Address | None
    """None where the NodeManager's own web server is reached."""
    web_upstream: Address
    rest: Address
    rest_url: str
    proxy_url: str
    node_id: str
    capacity: Resources
    local_dirs: tuple[Path, ...]
    public: Address | None = None
    """The NodeManager's address as others know it; None: that of `listen`."""
    nm_vcores: int = 0
    """Vcores that the NodeManager believes to have; 0: it detects them by itself."""
    nm_memory_mb: int = 0
    """Memory that the NodeManager believes to have; 0: it detects it by itself."""
    proxy_urls: tuple[str, ...] = ()
    """With high availability those of all proxies, `proxy_url` among them."""

    @property
    def proxies(self) -> tuple[str, ...]:
        """URLs of the proxies that get the reports."""
        return self.proxy_urls or (self.proxy_url,)

    @property
    def known_as(self) -> Address:
        """The address by which files and groups of this sidecar are named; it does not change with `intercept`."""
        return self.public or self.listen

    def journal(self, folder: Path) -> Path:
        """Return the file of this sidecar's journal; several sidecars of a machine may share the folder."""
        return folder / f"sidecar-{self.known_as.host}-{self.known_as.port}.journal"

    @property
    def web_host(self) -> str:
        """The NodeManager's name in Kerberos: that by which others know its web server, not where it listens."""
        host = self.web_listen.host if self.web_listen is not None else self.known_as.host
        return self.node_id.rpartition(":")[0] if host in ("0.0.0.0", "::") else host

    def group(self, parent: str) -> str:
        """Return the control group of this sidecar's containers; several sidecars of a machine have one each."""
        return f"{parent.strip('/')}/{self.known_as.host}-{self.known_as.port}"


def _check_no_loop(name: str, listen: Address | None, upstream: Address) -> None:
    """Raise SettingsError when the sidecar would listen where the NodeManager does."""
    if listen == upstream:
        raise SettingsError(
            f"the sidecar would relay to itself: {upstream} is also where it listens",
            place=f"sidecar.{name}",
            remedy=f"let the NodeManager listen on loopback ({BIND_HOST}=127.0.0.1), the sidecar on its name",
        )


def _fixed(conf: HadoopConf, name: str, setting: str) -> Address:
    """Return the address of a property, which must name a host and a port that other hosts can connect to."""
    address = conf.address(name)
    if address.port == 0 or address.host in ("0.0.0.0", "::"):
        raise SettingsError(
            f"{address} is no fixed address of this node",
            place=conf.place(name),
            remedy=f"give the NodeManager a host name and a port below 32768 there, or set {setting}",
        )
    return address


def _believed(conf: HadoopConf, name: str, default: int) -> int:
    """Return an amount that the NodeManager believes to have; 0: it detects it by itself."""
    amount = conf.integer(name)
    if amount > 0:
        return amount
    return 0 if conf.boolean("yarn.nodemanager.resource.detect-hardware-capabilities") else default


def _amount(conf: HadoopConf, name: str, setting: str, default: int) -> int:
    amount = conf.integer(name)
    if amount > 0:
        return amount
    if conf.boolean("yarn.nodemanager.resource.detect-hardware-capabilities"):
        raise SettingsError(
            "the NodeManager detects its size by itself", place=conf.place(name), remedy=f"set sidecar.{setting}"
        )
    return default
