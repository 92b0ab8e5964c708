"""Checks of ResourceManagers: required settings, and settings that are incompatible with quicksilver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quicksilver.common.address import Address
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import reachable
from quicksilver.common.hadoop.hadoop_version import ENABLED, NODES_USED, NODES_USED_VALUES, HadoopVersion
from quicksilver.doctor.finding import finding, must_be, text_of
from quicksilver.doctor.model import (
    CALCULATOR,
    RM,
    SCHEDULER_CLASS,
    DoctorSettings,
    DoctorSite,
    Facts,
    Finding,
    Remedy,
    Severity,
)
from quicksilver.doctor.node_size import every, shrinks

SCHEDULER: Final = "yarn.resourcemanager.scheduler.address"
_COMPARATOR: Final = "yarn.resourcemanager.nm-container-queuing.load-comparator"
_RATE: Final = "yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat"
_DISTRIBUTED: Final = "yarn.nodemanager.distributed-scheduling.enabled"
DOMINANT: Final = "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
_AUTO_UPDATE: Final = "yarn.resourcemanager.auto-update.containers"
_EXPIRY: Final = "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms"
_LIVENESS: Final = "yarn.am.liveness-monitor.expiry-interval-ms"
_RETRY: Final = "yarn.resourcemanager.connect.retry-interval.ms"
_MONITOR: Final = "yarn.resourcemanager.scheduler.monitor"
_PREEMPTION: Final = "ProportionalCapacityPreemptionPolicy"
_CAPACITY_FILE: Final = "capacity-scheduler.xml"
_MOVED_PORT: Final = 18030


def check(facts: Facts) -> Iterator[Finding]:
    """Yield what is wrong with each ResourceManager's configuration."""
    for site in facts.rms:
        yield from _opportunistic(site, facts)
        yield from _moved(site, facts)
        yield from _policies(site, facts.settings)
        yield from _preemption(site, facts.settings)
        yield from _clocks(site, facts)
        yield from _surroundings(site)


def _opportunistic(site: DoctorSite, facts: Facts) -> Iterator[Finding]:
    if not site.flag(ENABLED):
        why = "ApplicationMasterService is not the opportunistic one, and asks for OPPORTUNISTIC containers are ignored"
        yield must_be(site, "opportunistic-off", ENABLED, "true", why)
    yield from _nodes_used(site, facts)
    if site.text(_COMPARATOR, "QUEUE_LENGTH") != "QUEUE_WAIT_TIME":
        why = "ClusterNode.compareAndIncrement refuses a full node, and QueueLimitCalculator makes nodes shed"
        yield must_be(site, "load-comparator", _COMPARATOR, "QUEUE_WAIT_TIME", why)
    if site.number(_RATE, -1) >= 0:
        why = "grants beyond that wait for the application's next heartbeat, and may come for an ask that is over"
        yield must_be(site, "opportunistic-rate", _RATE, "-1", why)

    if facts.settings.proxy.own_grants and not site.flag(_DISTRIBUTED):
        why = (
            "each call with such containers is refused and sent again, and the ResourceManager's allocator grants them"
        )
        yield must_be(site, "own-grants", _DISTRIBUTED, "true", why)


def _nodes_used(site: DoctorSite, facts: Facts) -> Iterator[Finding]:
    value, reported = str(site.number(NODES_USED, 10)), facts.live.rms if facts.live else ()
    version = next((HadoopVersion(rm.version) for rm in reported if rm.ha_id == site.ha_id and rm.version), None)
    if version is None and value in NODES_USED_VALUES:
        return  # the right one for some version
    version = version or HadoopVersion("")
    if value == version.nodes_used:
        return
    why = version.why_no_grants(None, value) or (
        "CentralizedOpportunisticContainerAllocator falls back to the least loaded nodes, away from the chosen one"
        if version.central_allocator
        else "OpportunisticContainerAllocator takes only these nodes, and grants elsewhere where the chosen one is not"
    )
    yield must_be(site, "nodes-used", NODES_USED, version.nodes_used, why)


def _moved(site: DoctorSite, facts: Facts) -> Iterator[Finding]:
    try:
        own = reachable(site.conf.rm_address(SCHEDULER, site.ha_id))
    except SettingsError as error:
        why = "each proxy has to know which ResourceManager it stands in front of"
        remedy = Remedy(error.remedy, restart="ResourceManager")
        yield finding("ha-incomplete", site.place(SCHEDULER), error.message, "one address for each id", why, remedy)
        return
    name = f"{SCHEDULER}.{site.ha_id}" if site.ha_id else SCHEDULER
    listens = facts.settings.proxy.listen
    try:
        public = reachable(facts.client.conf.rm_address(SCHEDULER, site.ha_id)) if facts.client else None
    except SettingsError:
        public = None  # the clients' own finding
    at = reachable(listens) if listens else public
    upstream = facts.settings.proxy.upstream
    moved = upstream is not None and reachable(upstream) == own  # then it is the clients' address that is wrong
    if own == at and not moved:
        yield _in_the_way(site, facts, own, name)
        return
    in_front = site.ha_id is None or site.ha_id == facts.settings.proxy.rm_id
    if upstream is not None and in_front and reachable(upstream).port != own.port:
        why = "the proxy finds nobody there, and every application master waits"
        remedy = Remedy(f"set proxy.upstream: {own}", "quicksilver.yaml", restart="proxy")
        state = f"proxy.upstream is {upstream}, the ResourceManager's scheduler is at {own}"
        yield finding("proxy-upstream", facts.settings.place, state, f"proxy.upstream: {own}", why, remedy)


def _in_the_way(site: DoctorSite, facts: Facts, own: Address, name: str) -> Finding:
    """Return that the ResourceManager has the proxy's address; a file that others read cannot move it for it alone."""
    code, upstream = "scheduler-not-moved", facts.settings.proxy.upstream
    why = "one of the two cannot start; where it is the proxy, nothing becomes queueable"
    state = f"the ResourceManager's scheduler listens on {own}, which is the proxy's address"
    norm = "another port on the ResourceManager's hosts, and there only"
    if any(reader.role != RM and reader.conf.directory == site.conf.directory for reader in facts.sites):
        text = "others read this file: `quicksilver install` with all its roles moves it by an option in yarn-env.sh"
        remedy = Remedy(text, restart="ResourceManager")
        return finding(code, site.place(name), state, norm, why, remedy, name=name)
    port = upstream.port if upstream and upstream.port != own.port else _MOVED_PORT
    host = "${yarn.resourcemanager.hostname}" if not site.ha_id else own.host
    return must_be(site, code, name, f"{host}:{port}", why, state=state, norm=norm)


def promotes(settings: DoctorSettings) -> bool:
    """Return whether any of the policies makes queueable containers guaranteed."""
    return any(each.section.promote.policy != "none" for each in every(settings.policies))


def _policies(site: DoctorSite, settings: DoctorSettings) -> Iterator[Finding]:
    if promotes(settings) and not site.flag(_AUTO_UPDATE):
        why = "a promoted container stays OPPORTUNISTIC at its NodeManager: application masters do not update it there"
        yield must_be(site, "auto-update-off", _AUTO_UPDATE, "true", why)
    if shrinks(settings) is None or site.counts_vcores:
        return
    why = "by memory alone the ResourceManager plans any number of guaranteed containers on a node's cores"
    if site.scheduler == "capacity":
        yield must_be(site, "resource-calculator", CALCULATOR, DOMINANT, why, file=_CAPACITY_FILE)
        return
    remedy = Remedy("choose the Capacity Scheduler with DominantResourceCalculator, or the Fair Scheduler")
    place, state = site.place(SCHEDULER_CLASS), text_of(site, SCHEDULER_CLASS)
    norm = "a scheduler that counts vcores"
    yield finding("resource-calculator", place, state, norm, why, remedy, name=SCHEDULER_CLASS)


def _preemption(site: DoctorSite, settings: DoctorSettings) -> Iterator[Finding]:
    queues = settings.policies.section.queues if settings.policies else ()
    if not queues:
        return
    why = (
        "queueable containers are killed first, as the newest, and counted as freed though no guaranteed room "
        "comes of it (FifoCandidatesSelector, FSPreemptionThread)"
    )
    if site.scheduler == "fair" and site.flag("yarn.scheduler.fair.preemption"):
        yield must_be(site, "rm-preemption", "yarn.scheduler.fair.preemption", "false", why)
    if site.scheduler != "capacity":
        return
    policies = site.text(f"{_MONITOR}.policies", _PREEMPTION)
    if not site.flag(f"{_MONITOR}.enable") or _PREEMPTION not in policies:
        return
    names = [_preemption_name(queue) for queue in queues]
    wrong = [name for name in names if not _disabled(site, name)]
    if wrong:
        also = dict.fromkeys(wrong[1:], "true")
        state = f"{_MONITOR}.enable=true, and preemption is not disabled in queues with queueable containers"
        norm = "disable_preemption in these queues"
        first, file = wrong[0], _CAPACITY_FILE
        yield must_be(site, "rm-preemption", first, "true", why, state=state, norm=norm, file=file, also=also)


def _preemption_name(pattern: str) -> str:
    """Return the property that disables preemption for the queues of a glob: of the whole root for a real glob."""
    plain = pattern.strip()
    if any(sign in plain for sign in "*?["):
        return "yarn.scheduler.capacity.root.disable_preemption"
    path = plain if plain == "root" or plain.startswith("root.") else f"root.{plain}"
    return f"yarn.scheduler.capacity.{path}.disable_preemption"


def _disabled(site: DoctorSite, name: str) -> bool:
    """Return whether preemption is disabled by the queue's own property, or otherwise by that of a queue above it."""
    path = name.removeprefix("yarn.scheduler.capacity.").removesuffix(".disable_preemption")
    while path:
        own = f"yarn.scheduler.capacity.{path}.disable_preemption"
        if site.conf.text(own) is not None:
            return site.flag(own)
        path = path.rpartition(".")[0]
    return False


def _clocks(site: DoctorSite, facts: Facts) -> Iterator[Finding]:
    expiry_s, margin_s = site.number(_EXPIRY, 600_000) / 1000, facts.settings.sidecar.expiry_margin_s
    if expiry_s < 2 * margin_s + 60:
        wanted_ms = 600_000
        why = f"a start is given up {margin_s:g} s before its token expires (RMContainerTokenSecretManager)"
        severity = Severity.ERROR if expiry_s <= margin_s else Severity.WARNING
        yield must_be(site, "token-expiry", _EXPIRY, str(wanted_ms), why, severity=severity)
    retry_s = (facts.client or site).number(_RETRY, 30_000) / 1000
    if site.number(_LIVENESS, 900_000) / 1000 < 4 * retry_s:
        why = f"an application master that is refused tries again after {retry_s:g} s, and AMLivelinessMonitor ends it"
        yield must_be(site, "am-liveness", _LIVENESS, "900000", why)


def _surroundings(site: DoctorSite) -> Iterator[Finding]:
    if not site.flag("yarn.resourcemanager.recovery.enabled"):
        name = "yarn.resourcemanager.recovery.enabled"
        why = "as in YARN without quicksilver; where it is wanted, it needs a store (yarn.resourcemanager.store.class)"
        remedy = Remedy("leave it, or turn recovery on with a state store", restart="ResourceManager")
        if site.ha_id:
            why = "a failover ends every application"
            yield must_be(site, "rm-recovery", name, "true", why, severity=Severity.WARNING)
        else:
            yield finding("rm-recovery", site.place(name), f"{name} is off", "as you like", why, remedy, name=name)
    elif not site.flag("yarn.resourcemanager.work-preserving-recovery.enabled", True):
        name = "yarn.resourcemanager.work-preserving-recovery.enabled"
        yield must_be(site, "rm-work-preserving", name, "true", "running containers are killed at every restart")
    if site.flag("yarn.federation.enabled"):
        why = "where AMRMProxy or a router stands between, asks pass unread and nothing becomes queueable"
        remedy = Remedy("leave it where these applications need no queueable containers")
        name = "yarn.federation.enabled"
        severity, state = Severity.WARNING, f"{name}=true"
        place = site.place(name)
        yield finding("federation", place, state, "no federation", why, remedy, name=name, severity=severity)
    if site.scheduler == "other":
        why = "only of the Capacity, Fair and FIFO Schedulers it is known how they plan and preempt"
        place, state = site.place(SCHEDULER_CLASS), text_of(site, SCHEDULER_CLASS)
        remedy = Remedy("compare its preemption and its counting of vcores with docs/preemption.md")
        yield finding("scheduler-unknown", place, state, "a known scheduler", why, remedy, name=SCHEDULER_CLASS)
    if site.flag("yarn.node-labels.enabled"):
        name = "yarn.node-labels.enabled"
        why = "the proxy applies them itself, as the ResourceManager's REST reports them"
        remedy = Remedy("nothing to do")
        yield finding("labels", site.place(name), f"{name}=true", "as you like", why, remedy, name=name)
