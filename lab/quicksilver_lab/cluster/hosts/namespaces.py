"""Namespaces of a host: network, mounts (for its own /etc/hosts) and host name; a process in them, or this thread.

A host is a process that waits for the end of its input. Its namespaces end with the last process in them, so that
nothing is left behind, neither in /run/netns nor in /etc/netns.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from quicksilver_lab.cluster.errors import DaemonFailedError

_CLONE_FS, _CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWNET = 0x200, 0x20000, 0x4000000, 0x40000000
_KINDS: Final = {"net": _CLONE_NEWNET, "uts": _CLONE_NEWUTS, "mnt": _CLONE_NEWNS}
_CALL_S: Final = 60.0
_SET_UP: Final = """\
set -e
hostname "$1"
mount --bind "$2" /etc/hosts
ip link set lo up
echo up
exec cat
"""


def start_host(name: str, hosts_file: Path) -> subprocess.Popen[str]:
    """Start the process of a host and return when its namespaces are there. Raises DaemonFailedError.

    It ends, and its namespaces with it, when its standard input is closed.
    """
    argv = ["unshare", "--net", "--mount", "--uts", "--", "sh", "-c", _SET_UP, "sh", name, str(hosts_file)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    if process.stdout.readline() != "up\n":
        process.kill()
        why = process.stderr.read().strip()
        raise DaemonFailedError(f"host {name}: no namespaces: {why}. They need root, unshare (util-linux) and ip.")
    return process


def inside(pid: int, argv: Sequence[str], folder: Path | None = None) -> list[str]:
    """Return the command line that runs `argv` in the namespaces of a host, under the same pid."""
    where = [] if folder is None else [f"--wdns={folder}"]
    return ["nsenter", f"--target={pid}", "--net", "--mount", "--uts", *where, "--", *argv]


def run_inside(pid: int, argv: Sequence[str], text: str | None = None) -> str:
    """Run a command in the namespaces of a host; return its output. Raises DaemonFailedError when it fails."""
    done = subprocess.run(inside(pid, argv), input=text, capture_output=True, text=True, timeout=_CALL_S, check=False)
    if done.returncode:
        raise DaemonFailedError(f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def thread_inside(pid: int) -> Iterator[None]:
    """Have this thread, and what it starts meanwhile, be on a host for the time of a with block."""
    folder = Path.cwd()
    with ExitStack() as stack:
        before = {kind: _open(stack, Path(f"/proc/thread-self/ns/{kind}")) for kind in _KINDS}
        there = {kind: _open(stack, Path(f"/proc/{pid}/ns/{kind}")) for kind in _KINDS}
        try:
            _enter(there, folder)
            yield
        finally:
            _enter(before, folder)


def _open(stack: ExitStack, path: Path) -> int:
    handle = os.open(path, os.O_RDONLY)
    stack.callback(os.close, handle)
    return handle


def _enter(namespaces: dict[str, int], folder: Path) -> None:
    _call("unshare", _CLONE_FS)  # a thread that shares its root folder, as with those it started, keeps its mounts
    for kind, handle in namespaces.items():
        _call("setns", handle, _KINDS[kind])
    os.chdir(folder)


@contextmanager
def thread_in_network(pid: int) -> Iterator[None]:
    """Have this thread be in the network of a host, for sockets and devices that are made there."""
    with ExitStack() as stack:
        before = _open(stack, Path("/proc/thread-self/ns/net"))
        _call("setns", _open(stack, Path(f"/proc/{pid}/ns/net")), _CLONE_NEWNET)
        try:
            yield
        finally:
            _call("setns", before, _CLONE_NEWNET)


def _call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
