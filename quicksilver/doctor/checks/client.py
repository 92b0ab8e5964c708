"""What clients and application masters read: where the scheduler is, how long they wait; and what all share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quicksilver.common.address import Address, parse_address
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import reachable
from quicksilver.doctor.checks.rm import SCHEDULER
from quicksilver.doctor.finding import RESTARTS, finding, must_be, setting, text_of
from quicksilver.doctor.model import NM, RM, DoctorPlace, DoctorSite, Facts, Finding, Remedy, Severity
from quicksilver.doctor.spelling import nearest

_RETRY: Final = "yarn.resourcemanager.connect.retry-interval.ms"
_FAILOVER_SLEEP: Final = "yarn.client.failover-sleep-max-ms"
_FAILOVER_BASE: Final = "yarn.client.failover-sleep-base-ms"
_NM_RETRY: Final = "yarn.client.nodemanager-connect.retry-interval-ms"
_TASK_TIMEOUT: Final = "mapreduce.task.timeout"
_PROTECTION: Final = "hadoop.rpc.protection"
_RESOLVER: Final = "hadoop.security.saslproperties.resolver.class"
_BY_PORT: Final = "org.apache.hadoop.security.IngressPortBasedResolver"
_PORTS: Final = "ingress.port.sasl.configured.ports"
_RPC_ADDRESSES: Final = {
    RM: (
        SCHEDULER,
        "yarn.resourcemanager.resource-tracker.address",
        "yarn.resourcemanager.address",
        "yarn.resourcemanager.admin.address",
    ),
    NM: ("yarn.nodemanager.address", "yarn.nodemanager.localizer.address"),
}
"""The RPC addresses of a daemon; the first is the one that proxy or sidecar relays."""
_RETRY_MAX_MS: Final = 5000
_TEZ_CLOCK_S: Final = 300.0
_LEAST_TIMEOUT_MS: Final = 60_000
_BEGINNINGS: Final = ("yarn.", "mapreduce.", "mapred.", "hadoop.", "ipc.", "fs.", "io.", "yarn-")
_OPEN_ENDED: Final = (
    "yarn.scheduler.capacity.",
    "yarn.nodemanager.aux-services.",
    "yarn.resource-types",
    "yarn.nodemanager.resource-type.",
    "hadoop.proxyuser.",
    "hadoop.security.token.service.",
    "fs.s3a.bucket.",
    "quicksilver.",
)


def check(facts: Facts) -> Iterator[Finding]:
    """Yield what is wrong with what clients read, and with what every configuration has."""
    readers = ((facts.client,) if facts.client else ()) + facts.nms
    for site in readers:
        yield from _at_proxy(site, facts)
        yield from _retry(site)
        yield from _nm_retry(site)
    if facts.client:
        yield from _timeouts(facts.client, facts)
    for site in facts.sites:
        yield from _protection(site, facts)
        yield from _misspelt(site, facts.names)
        yield from _ignored(site)


def _at_proxy(site: DoctorSite, facts: Facts) -> Iterator[Finding]:
    """Judge where application masters would connect; those on nodes read the NodeManager's files."""
    ids: tuple[str | None, ...] = tuple(site.conf.rm_ids()) if site.conf.ha else (None,)
    for rm_id in ids:
        name = f"{SCHEDULER}.{rm_id}" if rm_id else SCHEDULER
        address = scheduler_of(site, rm_id)
        if address is None:
            why = "application masters do not find the scheduler"
            remedy = Remedy(f"set {name}, or the host name of that ResourceManager")
            yield finding("ha-incomplete", site.place(name), text_of(site, name), "an address", why, remedy)
            continue
        target = public_scheduler(facts, rm_id) or address
        if reachable(address) != reachable(target):
            why = "these application masters go around the proxy, or reach nobody once the scheduler has moved"
            yield must_be(site, "scheduler-not-at-proxy", name, str(target), why)


def scheduler_of(site: DoctorSite, rm_id: str | None) -> Address | None:
    """Return the scheduler's address that a configuration names, None where it is none."""
    try:
        return site.conf.rm_address(SCHEDULER, rm_id)
    except SettingsError:
        return None


def public_scheduler(facts: Facts, rm_id: str | None) -> Address | None:
    """Return where application masters have to connect: the proxy's address.

    That is where it listens, or is told to; else what clients and nodes have, but never the moved one that the proxy
    relays to.
    """
    if rm_id is None:
        for proxy in facts.live.proxies if facts.live else ():
            if not proxy.error and proxy.listen:
                return parse_address(proxy.listen, proxy.url)
        if facts.settings.proxy.listen is not None:
            return facts.settings.proxy.listen
    moved = facts.settings.proxy.upstream
    taken = reachable(moved) if moved else None
    addresses = [scheduler_of(site, rm_id) for site in ((facts.client,) if facts.client else ()) + facts.nms]
    return next((address for address in addresses if address is not None and reachable(address) != taken), None)


def _retry(site: DoctorSite) -> Iterator[Finding]:
    interval_ms = site.number(_RETRY, 30_000)
    if interval_ms > _RETRY_MAX_MS:
        why = f"after a restart of the proxy an application master stands still for {interval_ms / 1000:g} s (RMProxy)"
        yield must_be(site, "retry-interval", _RETRY, "1000", why, norm=f"{_RETRY} of 1000 to {_RETRY_MAX_MS}")
    sleep_ms = site.number(_FAILOVER_SLEEP, interval_ms)
    if site.conf.ha and sleep_ms > _RETRY_MAX_MS:
        why = f"who finds no ResourceManager active in a failover waits up to {sleep_ms / 1000:g} s (RMProxy)"
        yield must_be(site, "retry-interval", _FAILOVER_SLEEP, "1000", why, also={_FAILOVER_BASE: "250"})


def _nm_retry(site: DoctorSite) -> Iterator[Finding]:
    interval_ms = site.number(_NM_RETRY, 10_000)
    if interval_ms > _RETRY_MAX_MS:
        why = f"a start that a restart of a sidecar or NodeManager cuts is sent again after {interval_ms / 1000:g} s"
        yield must_be(site, "retry-interval", _NM_RETRY, "1000", why, severity=Severity.NOTE)


def _timeouts(site: DoctorSite, facts: Facts) -> Iterator[Finding]:
    timeout_ms = site.number(_TASK_TIMEOUT, 600_000)
    if 0 < timeout_ms < _LEAST_TIMEOUT_MS:
        why = "a start is held for half of it at most: TaskHeartbeatHandler counts from the answer to the start"
        yield must_be(site, "task-timeout", _TASK_TIMEOUT, "600000", why, file="mapred-site.xml")
    clocks = {"TEZ": _TEZ_CLOCK_S} | ({"MAPREDUCE": timeout_ms / 1000} if timeout_ms > 0 else {})
    for name, hold_s in facts.settings.proxy.max_hold_by_type_s.items():
        clock_s = clocks.get(name.upper())
        if clock_s is not None and hold_s >= clock_s:
            state = f"proxy.max_hold_by_type_s.{name} is {hold_s:g} s, the framework's own time-out {clock_s:g} s"
            why = "a task whose start is held longer counts as failed"
            remedy = setting(f"set proxy.max_hold_by_type_s.{name} to {clock_s / 2:g} or less", "proxy")
            yield finding("hold-limit", facts.settings.place, state, f"less than {clock_s:g} s", why, remedy)


def _protection(site: DoctorSite, facts: Facts) -> Iterator[Finding]:
    """Judge what SASL agrees on: the client's first word that the server offers. Only authentication can be read."""
    put: dict[str, str] = {}
    wants, text = _words(site, _PROTECTION), ""
    if "authentication" not in wants:
        put[_PROTECTION] = ",".join([*wants, "authentication"])
    ports = _ports(site)
    clients = [_words(client, _PROTECTION) for client in ((facts.client,) if facts.client else ()) + facts.nms]
    if ports and any(
        _choice(words, _offered(site, ports[0])) != "authentication" for words in _with_it(clients or [wants])
    ):
        listed = [*site.conf.names(_PORTS), *(str(port) for port in ports)]
        put |= {_RESOLVER: _BY_PORT, _PORTS: ",".join(dict.fromkeys(listed))}
        put |= _unchanged_ports(site, ports[1:])
        put[f"ingress.port.sasl.prop.{ports[0]}"] = "authentication"
        text = f"port {ports[0]} lets authentication in, all others that are named stay as they are (docs/security.md)"
    if not put:
        return
    why = "frames that are signed or encrypted pass unread: every container stays guaranteed"
    norm = "authentication on the scheduler's and the NodeManagers' ports"
    remedy = Remedy(text, site.file_of(_PROTECTION, "core-site.xml"), put, restart=RESTARTS[site.role])
    state = text_of(site, _PROTECTION)
    yield finding("rpc-protection", site.place(_PROTECTION), state, norm, why, remedy, name=_PROTECTION)


def _unchanged_ports(site: DoctorSite, ports: list[int]) -> dict[str, str]:
    """Return the properties by which ports that are named to Hadoop's resolver offer what they did before.

    Without one of its own, a named port offers privacy alone, which clients of a cluster of integrity do not speak.
    """
    names = [f"ingress.port.sasl.prop.{port}" for port in ports if str(port) not in site.conf.names(_PORTS)]
    offers = ",".join(word for word in _words(site, _PROTECTION) if word != "authentication")
    return dict.fromkeys(names, offers) if offers not in ("", "privacy") else {}


def _with_it(clients: list[list[str]]) -> list[list[str]]:
    """Return what clients speak once their own findings are mended."""
    return [words if "authentication" in words else [*words, "authentication"] for words in clients]


def _words(site: DoctorSite, name: str, default: str = "authentication") -> list[str]:
    return [word.strip().lower() for word in site.text(name, default).split(",") if word.strip()]


def _offered(site: DoctorSite, port: int) -> list[str]:
    """Return what a server offers at a port: for that port with Hadoop's resolver, otherwise its own setting."""
    if site.text(_RESOLVER) == _BY_PORT and str(port) in site.conf.names(_PORTS):
        return _words(site, f"ingress.port.sasl.prop.{port}", "privacy")
    return _words(site, _PROTECTION)


def _choice(words: list[str], offered: list[str]) -> str | None:
    return next((word for word in words if word in offered), None)


def _ports(site: DoctorSite) -> list[int]:
    """Return a daemon's RPC ports, first the one where frames must stay readable; [] for clients."""
    ports = []
    for name in _RPC_ADDRESSES.get(site.role, ()):
        try:
            port = (site.conf.rm_address(name, site.ha_id) if site.role == RM else site.conf.address(name)).port
        except SettingsError:
            continue  # a finding of its own, or none that listens
        ports.append(port)
    return [port for port in ports if port]


def _ignored(site: DoctorSite) -> Iterator[Finding]:
    for each in site.conf.ignored:
        place = DoctorPlace(site.host, site.role, each.file.parent, str(each.file), each.line)
        why = "Hadoop takes no notice of it, and neither does quicksilver"
        remedy = Remedy("name the property or take it out", each.file.name)
        yield finding("site-file", place, each.text, "properties with a name, below <configuration>", why, remedy)


def _misspelt(site: DoctorSite, names: frozenset[str]) -> Iterator[Finding]:
    if not site.from_files or not names:
        return
    ids = tuple(f".{rm_id}" for rm_id in site.conf.rm_ids())
    for name, said_at in site.conf.properties.items():
        plain = next((name.removesuffix(end) for end in ids if name.endswith(end)), name)
        if plain in names or plain.startswith(_OPEN_ENDED):
            continue
        near = nearest(plain, names)
        if near is None:
            continue
        right = near + name.removeprefix(plain)
        put = {} if right in site.conf.properties else {right: said_at.value.strip()}
        text = "" if put else f"{right} is set as well: take this one out"
        remedy = Remedy(text, said_at.file.name, put, (name,), RESTARTS[site.role])
        why = "Hadoop takes no notice of a name that it does not know"
        yield finding("misspelt", site.place(name), f"{name} is set", right, why, remedy, name=name)
