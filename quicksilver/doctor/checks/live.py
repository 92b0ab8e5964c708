"""Checks of the running daemons: values that are not in force yet, clocks, versions, and what listens where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from quicksilver.common.address import parse_address
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import reachable
from quicksilver.common.hadoop.hadoop_version import NEWEST, OLDEST, HadoopVersion
from quicksilver.doctor.checks.client import public_scheduler
from quicksilver.doctor.finding import RESTARTS, finding, setting
from quicksilver.doctor.model import (
    NM,
    RM,
    DoctorDaemon,
    DoctorNode,
    DoctorPlace,
    DoctorProxy,
    DoctorSite,
    Facts,
    Finding,
    Live,
    Remedy,
    Severity,
)

_SKEW_WARNING_S: Final = 2.0
_OURS: Final = re.compile(
    r"yarn\.(resourcemanager\.(opportunistic|nm-container-queuing|scheduler\.|auto-update|resource-tracker)"
    r"|nodemanager\.(opportunistic|bind-host|address|webapp\.address|localizer|collector|resource\.|hostname"
    r"|elastic|linux-container-executor\.cgroups\.strict))|hadoop\.rpc\.protection|ingress\.port"
)
"""Properties on which quicksilver depends; others that differ are notes."""


def check(facts: Facts) -> Iterator[Finding]:
    """Yield what is wrong with what runs."""
    live = facts.live
    if live is None:
        return
    sites = {(site.role, site.ha_id if site.role == RM else site.host): site for site in facts.sites}
    for daemon in live.rms + live.nms:
        site = sites.get((daemon.role, daemon.ha_id if daemon.role == RM else daemon.host))
        if site is not None:
            yield from _pending(daemon, site)
        yield from _version(daemon)
    yield from _skews(facts, live)
    yield from _mixed(live)
    for proxy in live.proxies:
        yield from _proxy(proxy, facts)
    for node in live.nodes:
        yield from _node(node, live)
    yield from _jobs(facts, live)


def _pending(daemon: DoctorDaemon, site: DoctorSite) -> Iterator[Finding]:
    if daemon.conf is None or not site.from_files:
        return
    names: list[str] = []
    for name in site.conf.properties:
        runs, file = daemon.conf.get(name), _value(site, name)
        if runs is None or file is None or name in daemon.programmatic or runs.strip() == file or "<redacted>" in runs:
            continue
        if not _OURS.match(name):
            names.append(name)
            continue
        why = "a daemon reads its files when it starts"
        restart = RESTARTS[daemon.role]
        remedy = Remedy(f"restart the {restart}, or put {runs.strip()} back into the file", restart=restart)
        state = f"{name} is {file} in the file, and {runs.strip()} in the running {restart}"
        yield finding("restart-pending", site.place(name), state, file, why, remedy, name=name)
    if names:
        why = "a daemon reads its files when it starts; none of these matters to quicksilver"
        remedy = Remedy(f"restart the {RESTARTS[daemon.role]} when it suits")
        state = f"{len(names)} other values differ from the running daemon's: {', '.join(sorted(names)[:10])}"
        place, note = DoctorPlace(site.host, site.role, site.conf.directory, str(site.conf.directory)), Severity.NOTE
        yield finding("restart-pending", place, state, "the same values", why, remedy, severity=note)


def _value(site: DoctorSite, name: str) -> str | None:
    """Return what the file says, None for what only the daemon's own surroundings can resolve."""
    try:
        value = site.conf.text(name)
    except SettingsError:
        return None
    raw = site.conf.properties[name].value
    surroundings = "${env." in raw or "${user." in raw or "${java." in raw or ".log.dir}" in raw
    return None if value is None or "${" in value or surroundings else value.strip()


def _version(daemon: DoctorDaemon) -> Iterator[Finding]:
    version, place = HadoopVersion(daemon.version), DoctorPlace(daemon.host, daemon.role, None, daemon.url)
    if not daemon.version:
        return
    state, tried = f"Hadoop {daemon.version}", f"{OLDEST} to {NEWEST}"
    if not version.known:
        why = f"its protocols and its scheduler may differ from those of {tried}"
        yield finding("hadoop-unknown", place, state, tried, why, Remedy("try it on a small cluster first"))
    elif not version.supported:
        why = "its allocator grants no OPPORTUNISTIC containers on named nodes"
        yield finding("hadoop-old", place, state, f"{OLDEST} or later", why, Remedy("upgrade Hadoop"))
    elif daemon.role == RM and version.limits:
        why = "; ".join(version.limits)
        yield finding("hadoop-limited", place, state, "3.3 or later", why, Remedy("nothing to do"))
    elif daemon.role == RM and not version.forgets_requests:
        why = "the proxy sends no zero rows and reuses its ids, so that its records stay small"
        yield finding("hadoop-leak", place, state, "3.5.0 or later", why, Remedy("nothing to do"))


def _skews(facts: Facts, live: Live) -> Iterator[Finding]:
    own = facts.settings.sidecar
    for owner, url, skew_s in _clocks(live):
        if skew_s is None or abs(skew_s) < _SKEW_WARNING_S:
            continue
        severity = Severity.ERROR if abs(skew_s) >= own.expiry_margin_s / 2 else Severity.WARNING
        why = (
            f"token expiry is the ResourceManager's clock and is kept on the node's, with a margin of "
            f"{own.expiry_margin_s:g} s; reports have times too"
        )
        state = f"the clock of {owner} is {abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} this machine's"
        remedy = Remedy("let chrony or ntpd run on all hosts, this one too")
        place = DoctorPlace(owner, "", None, url)
        yield finding("clock-skew", place, state, "less than 2 s", why, remedy, severity=severity)


def _clocks(live: Live) -> Iterator[tuple[str, str, float | None]]:
    for daemon in live.rms + live.nms:
        yield f"{daemon.role} {daemon.host}", daemon.url, daemon.skew_s
    for proxy in live.proxies:
        yield f"proxy {proxy.url}", proxy.url, proxy.skew_s
    for node in live.nodes:
        yield f"sidecar {node.id}", node.sidecar_url, node.sidecar_skew_s


def _mixed(live: Live) -> Iterator[Finding]:
    rm = next((daemon.version for daemon in live.rms if daemon.version), "")
    for node in live.nodes:
        if rm and node.version and node.version != rm:
            state = f"Hadoop {node.version} on the node, {rm} in the ResourceManager"
            why = "as long as an upgrade is under way that is usual"
            remedy = Remedy("finish the upgrade")
            yield finding("versions-differ", DoctorPlace(node.id, NM), state, "one version", why, remedy)


def _proxy(proxy: DoctorProxy, facts: Facts) -> Iterator[Finding]:
    place = DoctorPlace("proxy", "proxy", None, proxy.url)
    if proxy.error:
        why = "application masters are refused as long as it does not run"
        remedy = Remedy("start it: quicksilver proxy run; or give the address of its REST: --url")
        if proxy.ha_id:
            why = "after a failover to that ResourceManager application masters are refused"
        code, state = ("proxy-missing", f"{proxy.ha_id}: {proxy.error}") if proxy.ha_id else ("proxy-down", proxy.error)
        yield finding(code, place, state, "an answer", why, remedy)
        return
    for problem in proxy.problems:
        why = "the proxy reports it itself (quicksilver health)"
        yield finding("proxy-degraded", place, problem, "no problem", why, Remedy("follow the text of the problem"))
    upstream, schedulers = _reach(proxy.upstream), {_reach(str(_scheduler(rm))) for rm in facts.rms if _scheduler(rm)}
    if upstream and schedulers and upstream not in schedulers:
        why = "its ResourceManager is not where it relays to"
        state = f"the proxy relays to {proxy.upstream}, the ResourceManager's scheduler is at {', '.join(schedulers)}"
        remedy = setting("correct proxy.upstream and restart the proxy", "proxy")
        yield finding("proxy-elsewhere", place, state, ", ".join(schedulers), why, remedy)
    own = facts.live.own_version if facts.live else ""
    if own and proxy.version and proxy.version != own:
        why = "messages between proxy and sidecars may have changed"
        state = f"the proxy is quicksilver {proxy.version}, this program {own}"
        yield finding("quicksilver-versions", place, state, "one version", why, Remedy("finish the upgrade"))


def _scheduler(rm: DoctorSite) -> object:
    try:
        return rm.conf.rm_address("yarn.resourcemanager.scheduler.address", rm.ha_id)
    except SettingsError:
        return None


def _reach(text: str) -> str:
    """Return an address as it is connected to; "" for none."""
    try:
        return str(reachable(parse_address(text, ""))) if text else ""
    except SettingsError:
        return ""


def _node(node: DoctorNode, live: Live) -> Iterator[Finding]:
    place = DoctorPlace(node.id, NM, None, node.sidecar_url)
    if node.state != "RUNNING":
        return
    if node.usable is False:
        why = "the proxy places nothing there; guaranteed containers start only through the node's sidecar"
        remedy = Remedy("check the sidecar there: quicksilver doctor --node")
        state = node.why_unusable or "no queueable containers are placed there"
        yield finding("node-without-sidecar", place, state, "a recent report of its sidecar", why, remedy)
    if node.passes is False:
        why = "containers start without the sidecar: none is queued, and no room is made"
        remedy = Remedy("let the NodeManager listen on loopback (nm-bind-host), restart it, then the sidecar")
        state = f"a connection to {node.id} did not come to the sidecar"
        yield finding("around-sidecar", place, state, "the sidecar listens there", why, remedy)
    proxy = next((proxy.version for proxy in live.proxies if proxy.version), "")
    if node.sidecar_version and proxy and node.sidecar_version != proxy:
        why = "messages between proxy and sidecars may have changed"
        state = f"the sidecar is quicksilver {node.sidecar_version}, the proxy {proxy}"
        yield finding("quicksilver-versions", place, state, "one version", why, Remedy("finish the upgrade"))


def _jobs(facts: Facts, live: Live) -> Iterator[Finding]:
    target = public_scheduler(facts, None)
    for job in live.jobs:
        if target is None or not job.scheduler or _reach(job.scheduler) == _reach(str(target)):
            continue
        why = "the job's configuration has the address; its application master bypasses the proxy"
        state = f"{job.id} has yarn.resourcemanager.scheduler.address={job.scheduler}"
        remedy = Remedy("take the address out of what submits it (Oozie, Hive, a gateway's own files)")
        yield finding("job-address", DoctorPlace(job.id), state, str(target), why, remedy)
