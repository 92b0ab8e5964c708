"""Checks of NodeManagers: reachable through the sidecar only, and large enough that they never refuse a start."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from quicksilver.common.address import Address
from quicksilver.common.errors import SettingsError
from quicksilver.doctor.checks_rm import CALCULATOR, shrinks, shrinks_by_preset
from quicksilver.doctor.finding import finding, must_be, setting
from quicksilver.doctor.model import Facts, Finding, Remedy, Settings, Severity, Site

LOOPBACK: Final = "127.0.0.1"
_QUEUE: Final = "yarn.nodemanager.opportunistic-containers-max-queue-length"
_QUEUE_POLICY: Final = "yarn.nodemanager.opportunistic-containers-queue-policy"
_PAUSE: Final = "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption"
_HOSTNAME: Final = "yarn.nodemanager.hostname"
ADDRESS: Final = "yarn.nodemanager.address"
_WEB: Final = "yarn.nodemanager.webapp.address"
BIND: Final = "yarn.nodemanager.bind-host"
_LOCALIZER: Final = "yarn.nodemanager.localizer.address"
_COLLECTOR: Final = "yarn.nodemanager.collector-service.address"
VCORES: Final = "yarn.nodemanager.resource.cpu-vcores"
MEMORY: Final = "yarn.nodemanager.resource.memory-mb"
_DETECT: Final = "yarn.nodemanager.resource.detect-hardware-capabilities"
_STRICT: Final = "yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage"
_ELASTIC: Final = "yarn.nodemanager.elastic-memory-control.enabled"
_RECOVERY: Final = "yarn.nodemanager.recovery.enabled"
_AMRM: Final = "yarn.nodemanager.amrmproxy.enabled"
_DISTRIBUTED: Final = "yarn.nodemanager.distributed-scheduling.enabled"
_TRACKER: Final = "yarn.resourcemanager.resource-tracker.address"
_ALL: Final = "0.0.0.0"
_ANY: Final = (_ALL, "::", "")
_FIRST_EPHEMERAL: Final = 32768


def check(facts: Facts) -> Iterator[Finding]:
    """Yield what is wrong with each NodeManager's configuration."""
    for site in facts.nms:
        yield from _queue(site)
        own = facts.settings.sidecar
        redirected = own.intercept == "nftables"
        yield from _addresses(site, ((ADDRESS, 8041),) if redirected else ((ADDRESS, 8041), (_WEB, 8042)))
        if not redirected:
            yield from _behind(site)
        elif own.upstream is None and site.text(BIND) != _ALL:
            why = "the rule sends the node's own address to the sidecar, which reaches the NodeManager on loopback"
            yield must_be(site, "nm-bind-host", BIND, _ALL, why)
        yield from _size(site, facts)
        yield from _executor(site)
        yield from _surroundings(site, facts.settings)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _queue(site: Site) -> Iterator[Finding]:
    if site.number(_QUEUE, 0) <= 0:
        why = "ContainerScheduler.enqueueContainer kills what it may not queue; the sidecar's queue comes before it"
        yield must_be(site, "nm-queue-length", _QUEUE, "100000", why)
    if site.text(_QUEUE_POLICY, "BY_QUEUE_LEN") != "BY_QUEUE_LEN":
        why = "ContainerScheduler then kills on arrival what does not fit into its own count of resources"
        yield must_be(site, "nm-queue-policy", _QUEUE_POLICY, "BY_QUEUE_LEN", why)
    if site.flag(_PAUSE):
        why = "no container executor of Hadoop can pause: the container is killed"
        yield must_be(site, "nm-pause", _PAUSE, "false", why)


def _addresses(site: Site, names: tuple[tuple[str, int], ...]) -> Iterator[Finding]:
    for name, port in names:
        try:
            address = site.conf.address(name)
        except SettingsError as error:
            why = "the sidecar cannot listen there"
            yield must_be(site, "nm-port", name, f"${{{_HOSTNAME}}}:{port}", why, found=str(error.what))
            continue
        if address.host in _ANY:
            yield _nameless(site, name, address, port)
        if address.port == 0:
            why = "the sidecar has to know where it stands, and application masters hold on to the port"
            fixed = f"{address.host if address.host not in _ANY else f'${{{_HOSTNAME}}}'}:{port}"
            yield must_be(site, "nm-port", name, fixed, why)
        elif address.port >= _FIRST_EPHEMERAL:
            why = "the kernel gives such ports to outgoing connections, and the daemon then cannot start"
            yield must_be(site, "nm-port-high", name, f"{address.host}:{port}", why)


def _nameless(site: Site, name: str, address: Address, port: int) -> Finding:
    why = "with bind-host the NodeManager registers under the host of this address (NodeManager.buildNodeId)"
    found = f"{name} names {address}"
    wanted = "the node's own name, as others reach it"
    if site.host and site.text(_HOSTNAME) in _ANY and "${" in _raw(site, name):
        return must_be(site, "nm-hostname", _HOSTNAME, site.host, why, found=found, wanted=wanted)
    own = site.text(_HOSTNAME)
    host = f"${{{_HOSTNAME}}}" if own not in _ANY else site.host
    value = f"{host}:{address.port or port}"
    return must_be(site, "nm-hostname", name, value, why, found=found, wanted=wanted)


def _raw(site: Site, name: str) -> str:
    """Return what is written, without substitution; Hadoop's default of these addresses names the host name."""
    found = site.conf.properties.get(name)
    return found.value if found else "${}"


def _behind(site: Site) -> Iterator[Finding]:
    bind = site.text(BIND)
    if not is_loopback(bind):
        why = "application masters reach the NodeManager itself: no container is queued, and no room is made"
        wanted = f"{BIND}={LOOPBACK}, and the sidecar on the node's own address"
        yield must_be(site, "nm-bind-host", BIND, LOOPBACK, why, wanted=wanted)
    address = _address(site, _LOCALIZER)
    if address is not None and not is_loopback(address.host):
        why = "the localizer connects to this host, and with bind-host the NodeManager listens on loopback alone"
        yield must_be(site, "nm-localizer", _LOCALIZER, f"{LOOPBACK}:{address.port or 8040}", why)
    if not site.flag("yarn.timeline-service.enabled") or not site.text("yarn.timeline-service.version").startswith("2"):
        return
    collector = _address(site, _COLLECTOR)
    if collector is None or not is_loopback(collector.host):
        why = "timeline service 2 connects to this host, and with bind-host the NodeManager listens on loopback alone"
        port = collector.port if collector and collector.port else 8048
        yield must_be(site, "nm-collector", _COLLECTOR, f"{LOOPBACK}:{port}", why)


def _address(site: Site, name: str) -> Address | None:
    try:
        return site.conf.address(name)
    except SettingsError:
        return None


def _size(site: Site, facts: Facts) -> Iterator[Finding]:
    vcores, memory_mb = site.number(VCORES, 8), site.number(MEMORY, 8192)
    if vcores <= 0 or memory_mb <= 0:
        if site.flag(_DETECT):
            found = "the NodeManager detects its size, which is not checked here"
            why = "it must cover all that the sidecar may start: docs/preemption.md"
            remedy = setting("compare the node's page with sidecar.vcores and sidecar.memory_mb")
            yield finding("nm-size-unknown", site.place(_DETECT), found, "a size that is known", why, remedy)
            return
        vcores, memory_mb = max(vcores, 8) if vcores <= 0 else vcores, 8192 if memory_mb <= 0 else memory_mb
    yield from _by_memory(site, facts, vcores, memory_mb)
    yield from _by_sidecar(site, facts.settings, vcores, memory_mb)
    yield from _front_places(site, facts.settings, vcores)


def _by_memory(site: Site, facts: Facts, vcores: int, memory_mb: int) -> Iterator[Finding]:
    """Check a node whose scheduler considers memory alone."""
    rm = next(iter(facts.rms), None)
    if rm is None or rm.text(CALCULATOR).endswith("DominantResourceCalculator"):
        return
    smallest = max(1, rm.number("yarn.scheduler.minimum-allocation-mb", 1024))
    wanted = memory_mb // smallest
    if vcores < wanted:
        why = (
            "with a queue length above 0 ContainerScheduler counts vcores before it starts any container, guaranteed "
            "ones too, while the ResourceManager plans by memory alone (DefaultResourceCalculator)"
        )
        text = f"{VCORES}={vcores}, but {memory_mb} MB hold {wanted} containers of {smallest} MB"
        yield must_be(site, "nm-vcores", VCORES, str(wanted), why, found=text, wanted=f"{wanted} or more")


def _by_sidecar(site: Site, settings: Settings, vcores: int, memory_mb: int) -> Iterator[Finding]:
    own, extra = settings.sidecar, shrinks(settings)
    if own.memory_mb and own.memory_mb > memory_mb:
        why = "the NodeManager's own scheduler kills the newest queueable containers, and delays guaranteed ones"
        found = f"sidecar.memory_mb is {own.memory_mb}, {MEMORY}={memory_mb}"
        yield must_be(site, "nm-memory", MEMORY, str(own.memory_mb), why, found=found, wanted="as much or more")
    base = own.vcores
    if base is None and extra is not None and vcores <= extra:
        base = vcores
    needed = int(base + (extra or 0)) if base is not None and (own.count_vcores or extra is not None) else 0
    if settings.tracked and settings.tracker.rm_vcores and extra is not None:
        needed = max(needed, int(2 * settings.tracker.rm_vcores + extra))
    if vcores < needed:
        why = (
            "beyond what it believes in, ContainerScheduler holds guaranteed containers back and kills the newest "
            "queueable ones, whatever is shrunk; the sidecar therefore starts no more than this"
        )
        found = f"{VCORES}={vcores}, but containers may take {needed}"
        yield must_be(site, "nm-capacity", VCORES, str(needed), why, found=found, wanted=f"{needed} or more")


def _front_places(site: Site, settings: Settings, vcores: int) -> Iterator[Finding]:
    extra, base = shrinks_by_preset(settings), settings.sidecar.vcores
    if extra is None or (base is not None and vcores >= base + extra):
        return
    why = (
        "the default preset works without places beyond the cores, in which short tasks of small jobs start while a "
        "longer one is shrunk; with sidecar.vcores: N and N + 1 here (install --with sharing) it has them"
    )
    found = f"{VCORES}={vcores}, sidecar.vcores is {'not set' if base is None else f'{base:g}'}"
    needed = int((vcores if base is None else base) + extra)
    yield must_be(site, "front-places", VCORES, str(needed), why, found=found, wanted=f"{needed}, or as it is")


def _executor(site: Site) -> Iterator[Finding]:
    if site.flag(_STRICT):
        why = "CGroupsCpuResourceHandlerImpl divides by the advertised vcores: every container gets less than its share"
        yield must_be(site, "nm-strict-usage", _STRICT, "false", why)
    if site.flag(_ELASTIC):
        why = "the bound follows the advertised memory, beyond the machine's own, and no longer protects its daemons"
        yield must_be(site, "nm-elastic-memory", _ELASTIC, "false", why)


def _surroundings(site: Site, settings: Settings) -> Iterator[Finding]:
    for name in (_AMRM, _DISTRIBUTED):
        if site.flag(name):
            why = "application masters of this node talk to the NodeManager in place of the scheduler: they pass unread"
            yield must_be(site, "federation", name, "false", why)
    if not site.flag(_RECOVERY):
        why = "as in YARN without quicksilver; held starts are asked for again in both cases"
        remedy = Remedy("leave it, or turn NodeManager recovery on (yarn.nodemanager.recovery.dir)")
        place, found = site.place(_RECOVERY), f"{_RECOVERY} is off"
        yield finding("nm-recovery", place, found, "as you like", why, remedy, name=_RECOVERY)
    tracker = _address(site, _TRACKER)
    master = site.text("yarn.resourcemanager.hostname")
    if tracker is None or not is_loopback(tracker.host) or is_loopback(master) or settings.tracked:
        return
    why = "without `quicksilver tracker run` on the node, the NodeManager finds nobody there"
    remedy = setting("add a tracker: section (docs/tracker.md), or take the property out", "NodeManager")
    found = f"{_TRACKER}={tracker}"
    severity = Severity.ERROR
    place = site.place(_TRACKER)
    yield finding("nm-tracker", place, found, "a tracker: section", why, remedy, name=_TRACKER, severity=severity)
