"""Checks of NodeManagers: reachable through the sidecar only, and large enough that they never refuse a start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from quicksilver.common.address import Address
from quicksilver.common.errors import SettingsError
from quicksilver.doctor.finding import RESTARTS, finding, must_be, setting
from quicksilver.doctor.install import bare_conf
from quicksilver.doctor.model import NM, SETTINGS, DoctorSettings, DoctorSite, Facts, Finding, Remedy, Severity
from quicksilver.doctor.node_size import (
    ANY,
    DETECT,
    MEMORY,
    VCORES,
    believed,
    needed_by_memory,
    needed_vcores,
    own_vcores,
    shrinks,
    shrinks_by_preset,
    smallest_mb,
)

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
_LCE: Final = "yarn.nodemanager.linux-container-executor"
_STRICT: Final = f"{_LCE}.cgroups.strict-resource-usage"
CGROUP2: Final = f"{_LCE}.cgroups.v2.enabled"
"""Of Hadoop 3.5 and newer, where it is false by default."""
_ELASTIC: Final = "yarn.nodemanager.elastic-memory-control.enabled"
_RECOVERY: Final = "yarn.nodemanager.recovery.enabled"
_AMRM: Final = "yarn.nodemanager.amrmproxy.enabled"
_DISTRIBUTED: Final = "yarn.nodemanager.distributed-scheduling.enabled"
_FEDERATION: Final = "yarn.federation.enabled"
_RUNTIMES: Final = "yarn.nodemanager.runtime.linux.allowed-runtimes"
_TRACKER: Final = "yarn.resourcemanager.resource-tracker.address"
_ALL: Final = "0.0.0.0"
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
        yield from _executor(site, facts)
        yield from _surroundings(site, facts.settings)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _queue(site: DoctorSite) -> Iterator[Finding]:
    if site.number(_QUEUE, 0) <= 0:
        why = "ContainerScheduler.enqueueContainer kills what it may not queue; the sidecar's queue comes before it"
        yield must_be(site, "nm-queue-length", _QUEUE, "100000", why)
    if site.text(_QUEUE_POLICY, "BY_QUEUE_LEN") != "BY_QUEUE_LEN":
        why = "ContainerScheduler then kills on arrival what does not fit into its own count of resources"
        yield must_be(site, "nm-queue-policy", _QUEUE_POLICY, "BY_QUEUE_LEN", why)
    if site.flag(_PAUSE):
        why = "no container executor of Hadoop can pause: the container is killed"
        yield must_be(site, "nm-pause", _PAUSE, "false", why)


def _addresses(site: DoctorSite, names: tuple[tuple[str, int], ...]) -> Iterator[Finding]:
    for name, port in names:
        try:
            address = site.conf.address(name)
        except SettingsError as error:
            why = "the sidecar cannot listen there"
            yield must_be(site, "nm-port", name, f"${{{_HOSTNAME}}}:{port}", why, state=str(error.message))
            continue
        yield from _address_of(site, name, address, port)


def _address_of(site: DoctorSite, name: str, address: Address, port: int) -> Iterator[Finding]:
    """Judge host and port of an address: one value serves all that is wrong with it."""
    own, host, reasons = site.text(_HOSTNAME), address.host, list[tuple[str, str]]()
    if host in ANY:
        host = site.host if own in ANY else f"${{{_HOSTNAME}}}"
        why = "with bind-host the NodeManager registers under the host of this address (NodeManager.buildNodeId)"
        if own in ANY and "${" in _raw(site, name):
            host, norm = f"${{{_HOSTNAME}}}", "the node's own name, as others reach it"
            state = f"{name} names {address}"
            yield must_be(site, "nm-hostname", _HOSTNAME, site.host, why, state=state, norm=norm)
        else:
            reasons.append(("nm-hostname", why))
    if address.port == 0:
        reasons.append(("nm-port", "the sidecar has to know where it stands, and masters hold on to the port"))
    elif address.port >= _FIRST_EPHEMERAL:
        why = "the kernel gives such ports to outgoing connections, and the daemon then cannot start"
        reasons.append(("nm-port-high", why))
    if reasons:
        fixed = address.port if 0 < address.port < _FIRST_EPHEMERAL else port
        yield must_be(site, reasons[0][0], name, f"{host}:{fixed}", "; ".join(why for _, why in reasons))


def _raw(site: DoctorSite, name: str) -> str:
    """Return what is written, without substitution; Hadoop's default of these addresses names the host name."""
    entry = site.conf.properties.get(name)
    return entry.value if entry else "${}"


def _behind(site: DoctorSite) -> Iterator[Finding]:
    bind = site.text(BIND)
    if not is_loopback(bind):
        why = "application masters reach the NodeManager itself: no container is queued, and no room is made"
        norm = f"{BIND}={LOOPBACK}, and the sidecar on the node's own address"
        yield must_be(site, "nm-bind-host", BIND, LOOPBACK, why, norm=norm)
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


def _address(site: DoctorSite, name: str) -> Address | None:
    try:
        return site.conf.address(name)
    except SettingsError:
        return None


@dataclass(frozen=True, slots=True)
class _Need:
    """One reason for which a NodeManager needs this many vcores."""

    code: str
    vcores: int
    state: str
    why: str


def _size(site: DoctorSite, facts: Facts) -> Iterator[Finding]:
    size = believed(site)
    if size is None:
        state = "the NodeManager detects its size, which is not checked here"
        why = "it must cover all that the sidecar may start: docs/preemption.md"
        remedy = setting("compare the node's page with sidecar.vcores and sidecar.memory_mb")
        yield finding("nm-size-unknown", site.place(DETECT), state, "a size that is known", why, remedy)
        return
    vcores, memory_mb = size
    own_mb = facts.settings.sidecar.memory_mb
    if own_mb and own_mb > memory_mb:
        why = "the NodeManager's own scheduler kills the newest queueable containers, and delays guaranteed ones"
        state = f"sidecar.memory_mb is {own_mb}, {MEMORY}={memory_mb}"
        yield must_be(site, "nm-memory", MEMORY, str(own_mb), why, state=state, norm="as much or more")
    needs = [
        *_by_memory(facts, vcores, memory_mb),
        *_by_sidecar(site, facts, vcores),
        *_front_places(site, facts, vcores),
    ]
    if needs:
        yield _too_few(site, facts.settings, vcores, needs)


def _too_few(site: DoctorSite, settings: DoctorSettings, vcores: int, needs: list[_Need]) -> Finding:
    """Return one finding for all reasons: its value serves them all, its code is that of the gravest."""
    needed, first = max(need.vcores for need in needs), needs[0]
    optional = first.code == "front-places"
    text = ""
    if needs[-1].code == "front-places" and settings.sidecar.vcores is None:
        text = f"set sidecar.vcores: {_own(site) or vcores} in quicksilver.yaml"
    put = {VCORES: str(needed)} if needed > vcores else {}
    remedy = Remedy(text, site.file_of(VCORES) if put else SETTINGS, put, restart=RESTARTS[NM] if put else "sidecar")
    state = f"{VCORES}={vcores}, but {'; '.join(need.state for need in needs)}"
    norm = f"{needed} or more" if put and not optional else f"{needed}, or as it is" if put else text
    why = "; ".join(need.why for need in needs)
    return finding(first.code, site.place(VCORES), state, norm, why, remedy, name=VCORES)


def _by_memory(facts: Facts, vcores: int, memory_mb: int) -> Iterator[_Need]:
    """Judge a node whose scheduler considers memory alone."""
    rm = next(iter(facts.rms), None)
    minimum = needed_by_memory(rm, memory_mb) if rm else 0
    if rm and vcores < minimum:
        why = (
            "with a queue length above 0 ContainerScheduler counts vcores before it starts any container, guaranteed "
            "ones too, while the ResourceManager plans by memory alone"
        )
        state = f"{memory_mb} MB hold {minimum} containers of {smallest_mb(rm)} MB"
        yield _Need("nm-vcores", minimum, state, why)


def _by_sidecar(site: DoctorSite, facts: Facts, vcores: int) -> Iterator[_Need]:
    settings = facts.settings
    extra, base = shrinks(settings), _base(site, facts, vcores)
    if base is None and extra is not None and vcores <= extra:
        base = vcores
    if base is None or (extra is None and not settings.sidecar.count_vcores):
        return
    needed = needed_vcores(base, extra or 0.0, settings)
    if vcores < needed:
        why = (
            "beyond what it is configured with, ContainerScheduler queues guaranteed containers and kills the newest "
            "queueable ones, whatever is shrunk; the sidecar therefore starts no more than this"
        )
        yield _Need("nm-capacity", needed, f"containers may take {needed}", why)


def _front_places(site: DoctorSite, facts: Facts, vcores: int) -> Iterator[_Need]:
    settings = facts.settings
    extra, base = shrinks_by_preset(settings), _base(site, facts, vcores)
    if extra is None:
        return
    needed = needed_vcores(_own(site) or vcores if base is None else base, extra, settings)
    if base is not None and vcores >= needed:
        return
    why = (
        "the default preset can start one short container more than this node has cores, by shrinking a longer one; "
        "without a vcore to spare it does without"
    )
    own = settings.sidecar.vcores
    yield _Need("front-places", needed, f"sidecar.vcores is {'not set' if own is None else own}", why)


def _base(site: DoctorSite, facts: Facts, vcores: int) -> int | None:
    """Return N as the sidecar will have it; None where only the node itself can tell."""
    machine, own = facts.machine, facts.settings.sidecar.vcores
    if own is None and machine is not None and machine.is_node and machine.cores:
        return min(vcores, machine.cores)
    return own


def _own(site: DoctorSite) -> int | None:
    """Return the vcores that the admin's own text gives a NodeManager, below what `quicksilver install` added."""
    return own_vcores(bare_conf(site.conf.directory)) if site.from_files else None


def keeps_groups(site: DoctorSite) -> bool:
    """Return whether a NodeManager keeps control groups of its own for CPU."""
    if not _is_linux_executor(site):
        return False
    handler = site.text(f"{_LCE}.resources-handler.class").lower()
    return "cgroup" in handler or site.flag("yarn.nodemanager.resource.cpu.enabled")


def _is_linux_executor(site: DoctorSite) -> bool:
    return site.text("yarn.nodemanager.container-executor.class").endswith("LinuxContainerExecutor")


def _executor(site: DoctorSite, facts: Facts) -> Iterator[Finding]:
    if site.flag(_STRICT):
        why = "CGroupsCpuResourceHandlerImpl divides by the advertised vcores: every container gets less than its share"
        yield must_be(site, "nm-strict-usage", _STRICT, "false", why)
    if site.flag(_ELASTIC):
        why = "the bound follows the advertised memory, beyond the machine's own, and no longer protects its daemons"
        yield must_be(site, "nm-elastic-memory", _ELASTIC, "false", why)
    if "docker" not in site.conf.names(_RUNTIMES) or not _is_linux_executor(site):
        return
    resizer = facts.settings.sidecar.resizer
    if shrinks(facts.settings) is None or resizer == "docker" or (keeps_groups(site) and not site.flag(CGROUP2, False)):
        return
    why = (
        "the NodeManager starts Docker's containers in control groups of its own only if it keeps such of version 1 "
        "(DockerLinuxContainerRuntime.addCGroupParentIfRequired); else Docker's Engine has to shrink them"
    )
    place, state = site.place(_RUNTIMES), f"{_RUNTIMES}={site.text(_RUNTIMES)}, sidecar.resizer is {resizer}"
    remedy = setting("set sidecar.resizer=docker")
    yield finding("docker-runtime", place, state, "sidecar.resizer=docker", why, remedy, name=_RUNTIMES)


def _surroundings(site: DoctorSite, settings: DoctorSettings) -> Iterator[Finding]:
    for name in (_FEDERATION, _AMRM, _DISTRIBUTED):
        if site.flag(name):
            why = (
                "application masters of this node talk to the NodeManager or to another ResourceManager in place of "
                "the proxy: nothing becomes queueable"
            )
            yield must_be(site, "federation", name, "false", why, norm=f"{name}=false, or no quicksilver here")
    if not site.flag(_RECOVERY):
        why = "as in YARN without quicksilver; held starts are asked for again in both cases"
        remedy = Remedy("leave it, or turn NodeManager recovery on (yarn.nodemanager.recovery.dir)")
        place, state = site.place(_RECOVERY), f"{_RECOVERY} is off"
        yield finding("nm-recovery", place, state, "as you like", why, remedy, name=_RECOVERY)
    tracker = _address(site, _TRACKER)
    master = site.text("yarn.resourcemanager.hostname")
    if tracker is None or not is_loopback(tracker.host) or is_loopback(master) or settings.tracked:
        return
    why = "without `quicksilver tracker run` on the node, the NodeManager finds nobody there"
    remedy = setting("add a tracker: section (docs/tracker.md), or take the property out", "NodeManager")
    state = f"{_TRACKER}={tracker}"
    severity = Severity.ERROR
    place = site.place(_TRACKER)
    yield finding("nm-tracker", place, state, "a tracker: section", why, remedy, name=_TRACKER, severity=severity)
