"""Settings of the proxy: section `proxy` of quicksilver.yaml, completed from Hadoop's own configuration."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, SecretStr

from policies.settings_model import SettingsModel
from quicksilver.common.address import Address, AddressText
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import HadoopConf, load_hadoop_conf, reachable
from quicksilver.common.kerberos.keytab import Keytab
from rm_proxy.coordinator.error_budget import BudgetLimits

SCHEDULER: Final = "yarn.resourcemanager.scheduler.address"
_BIND_HOST: Final = "yarn.resourcemanager.bind-host"
_SYSTEM_STORES: Final = (Path("/var/lib/quicksilver/proxy/proxy.db"), Path("/var/lib/quicksilver/proxy.db"))
"""The packages give each daemon a directory of its own; a container with one daemon needs the parent alone."""


class ProxySettings(SettingsModel):
    """The admin's settings; each has a default or comes from HADOOP_CONF_DIR, except `upstream` or `rm_conf_dir`."""

    listen: AddressText | None = None
    """Where application masters connect; default: the ResourceManager's scheduler address in HADOOP_CONF_DIR, on the
    interfaces that yarn.resourcemanager.bind-host names."""
    upstream: AddressText | None = None
    """Where the ResourceManager's scheduler listens now that it was moved; default: from `rm_conf_dir`."""
    rm_conf_dir: Path | None = None
    """The ResourceManager's own configuration directory, where it differs from the clients' HADOOP_CONF_DIR."""
    rm_id: str | None = None
    """With high availability: the id of the ResourceManager in front of which this proxy stands; default:
    yarn.resourcemanager.ha.id."""
    rm_web: str | None = None
    """URL of the ResourceManager's web server; default from HADOOP_CONF_DIR."""
    kerberos_principal: str | None = None
    """Principal that logs in at the ResourceManager's web server if it requires Kerberos; `_HOST` is this host's name
    (own)."""
    kerberos_keytab: Path | None = None
    """The file with that principal's key, which only this user may read (own)."""
    rest_listen: AddressText = Address("127.0.0.1", 8390)
    """REST, metrics and the sidecars' reports; a cluster of several hosts needs an address that sidecars reach."""
    ui_base_path: str = Field("", pattern=r"^((/[A-Za-z0-9._~-]+)+)?$")
    """Prefix under which browsers see the proxy behind a web proxy that sends no X-Forwarded-Prefix or
    X-Forwarded-Context, e.g. /gateway/prod/quicksilver; the dashboard's login cookie is for this path (own)."""
    store_url: SecretStr | None = None
    """SQLAlchemy URL; default proxy.db in /var/lib/quicksilver/proxy or /var/lib/quicksilver, whichever is there and
    writable, else sqlite:///quicksilver.db in the working directory."""
    state_dir: Path | None = None
    """Directory of the state from which a restarted proxy continues; default: beside a SQLite store, else where the
    default one would be (own)."""
    metrics_queues: int = Field(50, ge=0, le=1000)
    """YARN queues that have metrics of their own, the first that are met; others count as `other` (own)."""
    round_s: float = Field(1.0, gt=0, le=20)
    """Time between two rounds of the coordinator."""
    nodes_refresh_s: float = Field(5.0, gt=0)
    """How often nodes are read from the ResourceManager, less often if that took 2 % of a core."""
    apps_refresh_s: float = Field(5.0, gt=0)
    """How often applications are read from the ResourceManager, only new ones where all would take 2 % of a core; a new
    attempt is looked up at once."""
    queues_refresh_s: float = Field(10.0, gt=0)
    """How often queues and their use are read from the ResourceManager."""
    rm_timeout_s: float = Field(5.0, gt=0)
    """How long a call of the ResourceManager's REST may take."""
    report_fresh_s: float = Field(6.0, gt=0)
    """Time without a report of its sidecar after which a node gets no queueable containers."""

    workers: int = Field(1, ge=1, le=16)
    """Processes that serve masters and nodes, each those of its own; more than one refuses some features (own)."""
    own_grants: bool | Literal["ahead"] = False
    """Grant queueable containers itself, on nodes whose tracker relays report their master keys, and inform the
    ResourceManager of them (Mercury §3.3; own-grants.md). ahead: the application has them before the ResourceManager
    answers, and sidecars hold their starts until then."""

    announce_workers: int = Field(64, ge=1, le=4096)
    """Announcements of grants that are on their way to sidecars at once; one for each node at most."""
    announce_timeout_s: float = Field(1.0, gt=0)
    """How long an announcement to one sidecar may take."""
    announce_queue: int = Field(10_000, ge=1)
    """Announcements that may wait; more are dropped and counted."""
    max_hold_by_type_s: dict[str, float] = Field({})
    """How long a sidecar may hold a start, by application type; without an entry MapReduce: half of
    mapreduce.task.timeout, Tez: 240 s (its own time-out is 300 s), others: 120 s."""

    max_connections: int = Field(10_000, ge=1)
    """Connections of application masters at once; more are closed at once with a log line."""
    max_logins_per_host: int = Field(1_000, ge=1)
    """Connections of one host that have not logged in yet, at once; more are closed at once (own)."""
    max_unfinished_mb: int = Field(1024, ge=1)
    """Memory for all incomplete frames together; beyond it connections with a large one are closed (own)."""
    max_frame_mb: int = Field(128, ge=1, le=1024)
    """The longest Hadoop RPC frame that is relayed (`ipc.maximum.data.length` is 128 MB by default); of an application
    master 16 MB at most."""
    connect_timeout_s: float = Field(10.0, gt=0)
    """How long connecting to the ResourceManager may take."""
    rm_probe_s: float = Field(1.0, gt=0, le=60)
    """How often the proxy tries whether the ResourceManager's scheduler port accepts connections, and five times as
    often while it does not; its own port is open while that one accepts them (own)."""
    handshake_timeout_s: float = Field(30.0, gt=0)
    """A connection that has not finished its handshake by then is closed."""

    max_body_mb: float = Field(8.0, gt=0)
    """The largest REST body that is read."""
    rest_connections: int = Field(10_000, ge=1)
    """REST connections at once."""
    store_queue: int = Field(20_000, ge=100)
    """Rows that may wait for the store; more are dropped and counted."""
    store_batch: int = Field(500, ge=1)
    """Rows of one transaction."""
    keep_days: float = Field(14.0, gt=0)
    """How long the store keeps its rows."""
    decisions_per_s: int = Field(200, ge=1, le=100_000)
    """Decisions of one slot within a second that are all stored, those beside allocated containers (own)."""
    decisions_one_of: int = Field(100, ge=1, le=1_000_000)
    """Of decisions beyond `decisions_per_s`, one of this number is stored and counts for all of them (own)."""
    decisions_recent: int = Field(2000, ge=0, le=1_000_000)
    """Decisions that stay in memory, for REST without the store (own)."""

    budget_window_s: float = Field(60.0, ge=10, le=3600)
    """Window in which faults count (own)."""
    budget_app_faults: int = Field(10, ge=1, le=10_000)
    """Faults of one application in the window that put it into bypass; one of the proxy's own code suffices (own)."""
    budget_faults: int = Field(30, ge=1, le=100_000)
    """Faults of no application within the window that put all applications into bypass (own)."""
    budget_apps: int = Field(3, ge=1, le=10_000)
    """Applications over `budget_app_faults` at once, and users of them, that put all into bypass (own)."""
    budget_apps_ratio: float = Field(0.25, gt=0, le=1)
    """Part of the users that this takes, each with this part of his applications over their budgets (own)."""
    budget_added_s: float = Field(1.0, ge=0.01, le=60)
    """Added delay of answers from which on the proxy is late; a healthy one adds a millisecond (own)."""
    budget_slow_ratio: float = Field(0.5, gt=0, le=1)
    """Part of the window in which the proxy is late that puts all applications into bypass (own)."""
    budget_quiet_s: float = Field(300.0, ge=1, le=86_400)
    """Time without faults after which bypass is given up on trial; a failed trial doubles it, to eight times (own)."""
    budget_trial_s: float = Field(120.0, ge=1, le=86_400)
    """How long a trial lasts (own)."""
    budget_trial_ratio: float = Field(0.1, gt=0, le=1)
    """The part of the applications with which the cluster's return begins, chosen by their ids (own)."""

    @property
    def max_body_bytes(self) -> int:
        """`max_body_mb` in bytes."""
        return int(self.max_body_mb * 2**20)

    def budget(self) -> BudgetLimits:
        """Return the settings `budget_*`."""
        return BudgetLimits(**{name: getattr(self, f"budget_{name}") for name in BudgetLimits.__dataclass_fields__})

    def keytab(self) -> Keytab | None:
        """Return the Kerberos login that the settings name, None without. Raises SettingsError, KerberosError."""
        return Keytab.of(self.kerberos_principal, self.kerberos_keytab, "proxy")

    def endpoints(self, conf: HadoopConf) -> Endpoints:
        """Return all addresses; unset ones are taken from Hadoop's configuration.

        Raises SettingsError naming the setting or property that is missing, or when the proxy would relay to itself.
        """
        listen = self.listen or conf.rm_address(SCHEDULER, self.rm_id)
        upstream = reachable(self.upstream or self._moved(conf))
        if upstream == reachable(listen):
            raise SettingsError(
                f"the proxy would relay to itself: {upstream} is also where it listens",
                place="proxy.upstream",
                remedy="move the ResourceManager's scheduler port (docs/operations.md) and name the new one here; if "
                "these site files have the new one already, set proxy.listen to the former one, e.g. rmhost:8030",
            )
        rm_web = (self.rm_web or conf.rm_web_url(self.rm_id)).rstrip("/")
        journal = self._journal(listen)
        bind_host = "" if self.listen else self._rm_conf(conf).text(_BIND_HOST) or ""
        return Endpoints(listen, upstream, rm_web, self.rest_listen, self.store, journal, bind_host)

    @property
    def store(self) -> str:
        """The store's URL, with its password."""
        return self.store_url.get_secret_value() if self.store_url else default_store_url()

    def _journal(self, listen: Address) -> Path:
        folder = self.state_dir
        if folder is None:
            file = self.store if self.store.startswith("sqlite:///") else default_store_url()
            folder = Path(file.removeprefix("sqlite:///")).parent
        return folder / f"attempts-{listen.host.replace(':', '_')}-{listen.port}.journal"

    def _moved(self, conf: HadoopConf) -> Address:
        if self.rm_conf_dir is None:
            raise SettingsError(
                "not set, and there is no rm_conf_dir to take it from",
                place="proxy.upstream",
                remedy="name the address to which the ResourceManager's scheduler was moved, e.g. rmhost:18030",
            )
        return self._rm_conf(conf).rm_address(SCHEDULER, self.rm_id)

    def _rm_conf(self, conf: HadoopConf) -> HadoopConf:
        return load_hadoop_conf(self.rm_conf_dir, conf.env, resourcemanager=True) if self.rm_conf_dir else conf


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the proxy listens and whom it talks to."""

    listen: Address
    upstream: Address
    rm_web: str
    """A URL without a slash at its end."""
    rest_listen: Address
    store_url: str = field(repr=False)
    journal: Path
    """The state from which a restarted proxy continues; one file for each listener."""
    bind_host: str = ""
    """Where the ResourceManager binds in place of its own address, and the proxy with it; "" for that of `listen`."""

    @property
    def bound(self) -> Address:
        """The address that the proxy binds to."""
        return Address(self.bind_host or self.listen.host, self.listen.port)


def default_store_url() -> str:
    """Return the system's store where its directory is writable, else a file in the working directory."""
    for store in _SYSTEM_STORES:
        if os.access(store if os.path.exists(store) else store.parent, os.W_OK):  # noqa: PTH110 (no error for strangers)
            return f"sqlite:///{store}"
    return f"sqlite:///{Path.cwd() / 'quicksilver.db'}"
