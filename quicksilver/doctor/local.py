"""Checks this machine: facts that only a process on it can see."""

from __future__ import annotations

import os
import resource
import socket
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil
from sqlalchemy.engine import make_url

from quicksilver.common.address import Address
from quicksilver.common.errors import SettingsError
from quicksilver.doctor.checks.client import public_scheduler
from quicksilver.doctor.checks.nm import ADDRESS, is_loopback
from quicksilver.doctor.collect import CollectPlaces
from quicksilver.doctor.model import DoctorMachine, DoctorSite, Facts, Secret, Unchecked
from quicksilver.doctor.node_size import shrinks
from sidecar.config import SidecarSettings
from sidecar.resizer.probe import choose
from sidecar.service.journal_file import default_state_dir

_SYSTEMD: Final = Path("/run/systemd/system")
_CGROUP: Final = Path("/sys/fs/cgroup")
_SECRET_WORDS: Final = ("token_file", "keytab", "tls_key")
_TRIAL_GROUP: Final = "quicksilver-doctor"
_MB: Final = 2**20


def look_here(facts: Facts, where: CollectPlaces, offline: bool) -> Facts:
    """Return the facts with what is seen on this machine; files alone when `offline`, unless it is a node."""
    unchecked = list(facts.unchecked)
    machine = DoctorMachine(socket.getfqdn(), secrets=tuple(_secrets(facts)), root=os.geteuid() == 0)
    if offline:
        unchecked.append(Unchecked("running daemons", "--offline", "leave it out"))
    elif _is_here(facts):
        machine = _proxy_side(machine, facts, unchecked)
    else:
        unchecked.append(Unchecked("the proxy's own host", "it is not this one", "run `quicksilver doctor` there"))
    if where.node:
        machine = _node_side(machine, facts, unchecked)
    else:
        why = "--node is not given"
        unchecked.append(Unchecked("the nodes' own side", why, "run `quicksilver doctor --node` on them"))
    if machine.is_proxy or machine.is_node:
        machine = replace(machine, systemd_units=_units(unchecked))
    return replace(facts, machine=machine, unchecked=tuple(unchecked))


def _is_here(facts: Facts) -> bool:
    """Return whether a proxy's scheduler address is one of this machine."""
    addresses: set[str] = set()
    for public in _public(facts):
        try:
            addresses |= {str(info[4][0]) for info in socket.getaddrinfo(public.host, None)}
        except OSError:
            continue  # a name that is not known here is not this machine's
    own = {address.address for card in psutil.net_if_addrs().values() for address in card}
    return any(address in own or is_loopback(address) for address in addresses)


def _public(facts: Facts) -> list[Address]:
    """Return where proxies listen: one, or with high availability one for each ResourceManager."""
    conf = facts.client.conf if facts.client else None
    ids: tuple[str | None, ...] = tuple(conf.rm_ids()) if conf is not None and conf.ha else (None,)
    return [address for rm_id in ids if (address := public_scheduler(facts, rm_id)) is not None]


def _secrets(facts: Facts) -> Iterator[Secret]:
    """Yield the files that settings name and others must not read, and the settings themselves with a password."""
    settings = facts.settings
    sections = (
        ("proxy", settings.proxy),
        ("sidecar", settings.sidecar),
        ("tracker", settings.tracker),
        ("security", settings.security),
    )
    for section, model in sections:
        for name, value in model:
            if isinstance(value, Path) and name.endswith(_SECRET_WORDS):
                yield Secret(value, f"{section}.{name}", _mode(value))
    if settings.path and make_url(settings.proxy.store).password:
        yield Secret(settings.path, "quicksilver.yaml with the store's password", _mode(settings.path))


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def _proxy_side(machine: DoctorMachine, facts: Facts, unchecked: list[Unchecked]) -> DoctorMachine:
    running = _process("proxy", "run", ports={address.port for address in _public(facts)})
    limit = None
    try:
        limit = running.rlimit(resource.RLIMIT_NOFILE)[0] if running else None
    except psutil.Error:
        running = None
    if running is None:
        unchecked.append(
            Unchecked("open files of the proxy", "its process is not to be seen", "run as its user or root")
        )
    url = make_url(facts.settings.proxy.store)
    folder = Path(url.database).parent if url.drivername.startswith("sqlite") and url.database else None
    file = Path(url.database) if folder and url.database else None
    mode = _mode(file) if file else None
    store = (Secret(file, "the proxy's store", mode),) if file and mode is not None else ()
    return replace(
        machine,
        is_proxy=True,
        secrets=machine.secrets + store,
        open_files=limit,
        store_dir=folder,
        store_mode=_mode(folder) if folder else None,
        store_writable=os.access(folder, os.W_OK) if folder else None,
    )


def _process(*words: str, ports: set[int]) -> psutil.Process | None:
    """Return the process of quicksilver with these words in its command that listens on one of the ports."""
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
            if not any("quicksilver" in part for part in line) or not set(words) <= set(line):
                continue
            if any(c.status == psutil.CONN_LISTEN and c.laddr.port in ports for c in process.net_connections("tcp")):
                return process
        except psutil.Error:
            continue  # gone, or not ours to see
    return None


def _units(unchecked: list[Unchecked]) -> frozenset[str] | None:
    if not _SYSTEMD.is_dir():
        unchecked.append(Unchecked("systemd units", "systemd does not run here", "let something restart the daemons"))
        return None
    command = ["systemctl", "list-unit-files", "--no-legend", "--plain", "quicksilver*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        unchecked.append(Unchecked("systemd units", f"systemctl: {error}"))
        return None
    return frozenset(line.split()[0] for line in done.stdout.splitlines() if line.strip())


def _node_side(machine: DoctorMachine, facts: Facts, unchecked: list[Unchecked]) -> DoctorMachine:
    site = next(iter(facts.nms), None)
    cgroup = "v2" if (_CGROUP / "cgroup.controllers").exists() else "v1" if (_CGROUP / "cpu").is_dir() else ""
    resizer, why = _resizer(facts, site, machine.root)
    if resizer is None:
        unchecked.append(Unchecked("what resizes containers", why[0]))
    journal = facts.settings.sidecar.state_dir or default_state_dir()
    return replace(
        machine,
        is_node=True,
        journal_dir=journal,
        journal_writable=os.access(journal, os.W_OK) if journal else None,
        memory_mb=psutil.virtual_memory().total // _MB,
        cores=os.cpu_count() or 1,
        cgroup=cgroup,
        resizer=resizer,
        resizer_why=why,
        listeners=_listeners(site, facts.settings.sidecar.intercept, unchecked) if site else None,
        listen_addresses=_listen_addresses(site, facts.settings.sidecar) if site else None,
    )


def _listen_addresses(site: DoctorSite, sidecar: SidecarSettings) -> dict[str, tuple[str, ...]] | None:
    """Return the name of the address on which the sidecar listens alone, with what it stands for; None without one."""
    if sidecar.intercept == "nftables":
        return None  # the rule has the addresses of all interfaces
    try:
        address = sidecar.listen or site.conf.address(ADDRESS)
        infos = socket.getaddrinfo(address.host, address.port, socket.AF_INET, socket.SOCK_STREAM)
    except (SettingsError, OSError):
        return None  # the sidecar names it itself as it starts
    return {address.host: tuple(str(info[4][0]) for info in infos)}


def _resizer(facts: Facts, site: DoctorSite | None, root: bool) -> tuple[str | None, tuple[str, ...]]:
    """Try what resizes here, in a group of its own. None: not tried."""
    if shrinks(facts.settings) is None:
        return None, ("no policy shrinks containers",)
    if not root:
        return None, ("not root",)
    settings = facts.settings.sidecar
    choice = choose(settings.resizer, parent=_TRIAL_GROUP, conf=site.conf if site else None)
    why = tuple(f"{name}: {text}" for name, text in choice.why_not.items()) + choice.warnings
    return (choice.resizer.name if choice.resizer else ""), why


def _listeners(site: DoctorSite, intercept: str, unchecked: list[Unchecked]) -> dict[str, str] | None:
    """Return the processes other than a sidecar that listen on the NodeManager's ports where other hosts reach it."""
    if intercept == "nftables":
        why = "the NodeManager listens there, and a rule of nftables sends connections to the sidecar"
        unchecked.append(Unchecked("who listens on the NodeManager's ports", why, "without --offline one is tried"))
        return None
    ports = set()
    for name in ("yarn.nodemanager.address", "yarn.nodemanager.webapp.address"):
        try:
            ports.add(site.conf.address(name).port)
        except SettingsError:
            continue  # a finding of its own
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        unchecked.append(Unchecked("who listens on the NodeManager's ports", "no right to see", "run as root"))
        return None
    others = {}
    for connection in connections:
        if connection.status != psutil.CONN_LISTEN or not connection.laddr or connection.laddr.port not in ports:
            continue
        if connection.laddr.ip in ("127.0.0.1", "::1") or (owner := _owner(connection.pid)) is None:
            continue
        others[f"{connection.laddr.ip}:{connection.laddr.port}"] = owner
    return others


def _owner(pid: int | None) -> str | None:
    """Return a process's name; None for a sidecar, its supervisor, or systemd, which holds its sockets."""
    try:
        process = psutil.Process(pid) if pid else None
        line = process.cmdline() if process else []
    except psutil.Error:
        return "a process that has ended"
    if process is None:
        return "a process of somebody else"
    if process.name() == "systemd" or "sidecar" in line:
        return None
    main = next((word for word in line if word.endswith("NodeManager")), "")
    return main or process.name()
