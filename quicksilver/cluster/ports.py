"""Are the ports free which a daemon is going to take? Asked before it starts, so that the answer names the culprit."""

import errno
import socket
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from quicksilver.cluster.errors import PortInUseError
from quicksilver.cluster.spec import HostPort

ANY = "0.0.0.0"


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
