"""Checks that the ports of a cluster are free before its daemons start, and finds ranges that are."""

import errno
import itertools
import os
import random
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import psutil

from quicksilver_lab.cluster.errors import PortInUseError
from quicksilver_lab.cluster.spec import LAST_FIXED_PORT, ClusterSpec, HostPort

ANY = "0.0.0.0"
_STEP = 200
_SINGLE_PORTS = range(10000, 20000)
"""Below those of clusters, and below those that Linux gives to whoever connects (32768 to 60999): a port from there can
be taken by any connection between the moment it is found and the moment a server listens on it."""
_ports: dict[tuple[int, range], Iterator[int]] = {}
"""What each process draws from, in a random order: a fork has an order of its own."""


@dataclass(frozen=True, slots=True)
class Listen:
    """An address that a daemon is going to listen on."""

    address: HostPort
    purpose: str


def check_free(listens: Iterable[Listen], remedy: str) -> None:
    """Raise PortInUseError naming each taken port, what it is for, and by which process it is held."""
    taken = [
        f"{listen.address} ({listen.purpose}){_holder(listen.address)}" for listen in listens if not _is_free(listen)
    ]
    if taken:
        raise PortInUseError(f"in use: {', '.join(taken)}. {remedy}")


def _is_free(listen: Listen) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: TIME_WAIT is no hindrance
        try:
            probe.bind(listen.address)
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise PortInUseError(
                f"{listen.address} ({listen.purpose}) cannot be listened on: {error.strerror}."
            ) from error
    return True


def _holder(address: HostPort) -> str:
    try:
        sockets = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return ""
    for sock in sockets:
        if sock.status == psutil.CONN_LISTEN and sock.laddr and sock.laddr.port == address.port and sock.pid:
            same = address.host in (sock.laddr.ip, ANY) or sock.laddr.ip in (ANY, "::")
            if same and psutil.pid_exists(sock.pid):
                return f" by {_name(sock.pid)}"
    return ""


def _name(pid: int) -> str:
    try:
        return f"process {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:
        return f"process {pid}"


def free_base_port(nodes: int = 3, lowest: int = 20000) -> int:
    """Return a base_port whose whole range is free now; drawn at random, so that test runs side by side seldom meet.

    Those of one `pytest -n` never meet: each takes from bases of its own. Raises PortInUseError when there is none.
    """
    worker, workers = worker_of(os.environ)
    span = ClusterSpec(base_port=1024, nodes=nodes).last_port - 1024 + 1
    bases = list(range(lowest, LAST_FIXED_PORT + 1 - span, _STEP))[worker::workers]
    random.shuffle(bases)
    for base in bases:
        try:
            check_free((Listen(HostPort(ANY, base + offset), "test cluster") for offset in range(span)), "")
        except PortInUseError:
            continue
        return base
    raise PortInUseError(f"no {span} free ports in a row between {lowest} and {LAST_FIXED_PORT}. End other clusters.")


def free_port() -> int:
    """Return a port that is free now and that no connection takes of itself; another one at each call.

    Those of one `pytest -n` never meet: each takes from ports of its own. Raises PortInUseError when there is none.
    """
    worker, workers = worker_of(os.environ)
    ports = _SINGLE_PORTS[worker::workers]
    if (os.getpid(), ports) not in _ports:
        _ports[os.getpid(), ports] = itertools.cycle(random.sample(ports, len(ports)))
    for port in itertools.islice(_ports[os.getpid(), ports], len(ports)):
        if _is_free(Listen(HostPort(ANY, port), "one server")):
            return port
    raise PortInUseError(f"no free port between {ports.start} and {ports.stop}. End other servers.")


def worker_of(env: Mapping[str, str]) -> tuple[int, int]:
    """Return which process of how many this is under `pytest -n`, counted from 0; (0, 1) without."""
    return int(env.get("PYTEST_XDIST_WORKER", "gw0")[2:]), int(env.get("PYTEST_XDIST_WORKER_COUNT", "1"))
