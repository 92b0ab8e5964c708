"""What only somebody on the machine can see: rights, limits, who listens, secrets."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import Final

from quicksilver.common.hadoop.hadoop_version import HadoopVersion
from quicksilver.doctor.checks.nm import CGROUP2, is_loopback, keeps_groups
from quicksilver.doctor.finding import finding, must_be, setting
from quicksilver.doctor.model import DoctorMachine, DoctorPlace, Facts, Finding, Remedy, Severity
from quicksilver.doctor.node_size import MEMORY, shrinks

NOTHING: Final = Remedy("nothing to do")
_FEWEST_FILES: Final = 16_384
_WORLD: Final = stat.S_IRWXO


def check(facts: Facts) -> Iterator[Finding]:
    """Yield what is wrong with this machine."""
    machine = facts.machine
    if machine is None:
        return
    yield from _secrets(machine)
    if machine.is_proxy:
        yield from _store(machine)
        yield from _files(machine)
    yield from _units(machine)
    if machine.is_node:
        yield from _journal(machine)
        yield from _listeners(machine)
        yield from _own_name(machine)
        yield from _resizing(machine, facts)
        yield from _memory(machine, facts)


def _secrets(machine: DoctorMachine) -> Iterator[Finding]:
    for secret in machine.secrets:
        place = DoctorPlace(machine.host, "", None, str(secret.path))
        if secret.mode is None:
            why = "the daemon that needs it does not start"
            remedy = setting("correct the path, or make the file (quicksilver certs)")
            yield finding("secret-missing", place, f"{secret.name} is not there", "a file", why, remedy)
        elif secret.mode & _WORLD:
            why = "whoever reads it may act as quicksilver"
            remedy = Remedy(f"chmod o-rwx {secret.path}")
            state = f"{secret.name} has mode {secret.mode:04o}"
            yield finding("secret-readable", place, state, "0600 or 0640", why, remedy)


def _store(machine: DoctorMachine) -> Iterator[Finding]:
    if machine.store_dir is None:
        return
    place = DoctorPlace(machine.host, "", None, str(machine.store_dir))
    if machine.store_writable is False:
        why = "after a restart of the proxy its applications stay guaranteed: their state was not stored"
        remedy = Remedy(f"mkdir -p {machine.store_dir}; chown its user; chmod 0700")
        yield finding("store-rights", place, "cannot be written by the proxy's user", "its own", why, remedy)
    elif machine.store_mode is not None and machine.store_mode & (stat.S_IWGRP | stat.S_IWOTH):
        why = "whoever may write there may put another store in its place"
        remedy = Remedy(f"chmod 0700 {machine.store_dir}")
        yield finding("store-open", place, f"mode {machine.store_mode:04o}", "0700", why, remedy)


def _files(machine: DoctorMachine) -> Iterator[Finding]:
    if machine.open_files is not None and 0 <= machine.open_files < _FEWEST_FILES:
        why = "each application master takes two connections: beyond the limit all others are refused"
        state = f"{machine.open_files} open files"
        remedy = Remedy("set LimitNOFILE=65536 in the unit", restart="proxy")
        norm = f"{_FEWEST_FILES} or more"
        yield finding("open-files", DoctorPlace(machine.host, "proxy"), state, norm, why, remedy)


def _units(machine: DoctorMachine) -> Iterator[Finding]:
    if machine.systemd_units is None:
        return
    roles = (("quicksilver-proxy", machine.is_proxy), ("quicksilver-sidecar", machine.is_node))
    for unit, here in roles:
        if here and not any(known.startswith(unit) for known in machine.systemd_units):
            why = "dead, it must be there again within a second: it stands on the path of every container"
            remedy = Remedy(f"install hadoop-conf/systemd/{unit}.service, systemctl enable --now {unit}")
            place = DoctorPlace(machine.host, "", None, "/etc/systemd/system")
            yield finding("systemd-unit", place, f"there is no {unit}.service", "the unit, enabled", why, remedy)


def _journal(machine: DoctorMachine) -> Iterator[Finding]:
    if machine.journal_writable is False or machine.journal_dir is None:
        place = DoctorPlace(machine.host, "nodemanager", None, str(machine.journal_dir or "sidecar.state_dir"))
        why = "killed, the sidecar does not know what it held: those starts are found lost only by time-outs"
        remedy = setting("name a directory of its user in sidecar.state_dir", "sidecar")
        state = "cannot be written by the sidecar's user" if machine.journal_dir else "there is no place for it"
        severity = Severity.ERROR if machine.journal_dir else Severity.WARNING
        yield finding("journal-rights", place, state, "a directory of its own, 0700", why, remedy, severity=severity)


def _listeners(machine: DoctorMachine) -> Iterator[Finding]:
    for address, process in (machine.listeners or {}).items():
        why = "what connects there goes around the sidecar"
        remedy = Remedy("set yarn.nodemanager.bind-host=127.0.0.1 (nm-bind-host), restart the NodeManager")
        state = f"{process} listens on {address}"
        yield finding(
            "node-listeners", DoctorPlace(machine.host, "nodemanager"), state, "the sidecar alone", why, remedy
        )


def _own_name(machine: DoctorMachine) -> Iterator[Finding]:
    for name, addresses in (machine.listen_addresses or {}).items():
        if not is_loopback(name) and addresses and all(map(is_loopback, addresses)):
            why = "the sidecar listens there alone: no other host reaches this node"
            text = f"have {name} stand for this host's own address in /etc/hosts, or set sidecar.intercept=nftables"
            state = f"{name} stands for {', '.join(addresses)} on this host"
            place = DoctorPlace(machine.host, "nodemanager")
            yield finding("nm-hostname", place, state, "an address that other hosts reach", why, Remedy(text))


def _resizing(machine: DoctorMachine, facts: Facts) -> Iterator[Finding]:
    place = DoctorPlace(machine.host, "nodemanager")
    if machine.cgroup:
        state = f"control groups {machine.cgroup}"
        why = "the sidecar takes either; LinuxContainerExecutor of Hadoop before 3.5 knows v1 only"
        remedy = NOTHING
        if machine.cgroup == "v2" and any(map(keeps_groups, facts.nms)):
            if _before_v2(facts):
                remedy = Remedy(f"upgrade Hadoop to 3.5 and set {CGROUP2}=true, or boot with v1")
            elif version1 := [site for site in facts.nms if keeps_groups(site) and not site.flag(CGROUP2)]:
                remedy = must_be(version1[0], "cgroup-version", CGROUP2, "true", why).remedy
        severity = Severity.NOTE if remedy == NOTHING else Severity.WARNING
        yield finding("cgroup-version", place, state, "v1 or v2", why, remedy, severity=severity)
    if shrinks(facts.settings) is None:
        return
    if machine.resizer == "":
        why = "containers beyond the cores wait, or are killed to make room"
        state = "; ".join(machine.resizer_why) or "no resizer works"
        remedy = Remedy("run the sidecar as root, with the cpu controller writable; or preempt: kill_newest")
        yield finding("no-resizer", place, state, "cgroup2, cgroup1 or signals", why, remedy)
    if not machine.root:
        why = "checked as another user than root, so the sidecar's rights may differ"
        remedy = Remedy("run this as the sidecar's user, which has to be root or own a delegated group")
        yield finding("not-root", place, "this user is not root", "root", why, remedy)


def _before_v2(facts: Facts) -> bool:
    """Return whether the NodeManagers' Hadoop knows control groups v1 only; an unknown version counts as such."""
    known = [HadoopVersion(daemon.version) for daemon in facts.live.nms if daemon.version] if facts.live else []
    return not all(version.speaks_cgroup2 for version in known) if known else True


def _memory(machine: DoctorMachine, facts: Facts) -> Iterator[Finding]:
    for site in facts.nms:
        advertised = site.number(MEMORY, 8192)
        if 0 < machine.memory_mb < advertised + facts.settings.sidecar.reserve_mb and site.host in ("", machine.host):
            why = "containers that use what they asked for would fill it; queueable ones then wait (the memory guard)"
            state = f"{MEMORY}={advertised}, the machine has {machine.memory_mb} MB"
            norm = f"sidecar.reserve_mb ({facts.settings.sidecar.reserve_mb}) less than the machine has"
            remedy = setting("set sidecar.memory_mb to what containers may use here")
            yield finding("physical-memory", site.place(MEMORY), state, norm, why, remedy, name=MEMORY)
