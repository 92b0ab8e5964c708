"""`quicksilver keep`: runs a command, holds its sockets, and starts it again when it ends.

For where there is no systemd, whose protocol it speaks (quicksilver/common/process/fdstore.py); it does nothing else,
so that little could end it. Should it be killed, the command is killed with it: its addresses are free at once for
another keeper, and what it was doing is taken up as after any crash.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import os
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import click

from quicksilver import standby_process
from quicksilver.common.process import fdstore

MAX_KEPT: Final = 8192
"""Sockets that are held; more are closed as they come."""
GRACE_S: Final = 15.0
"""What the command has for an orderly end before it is killed."""
STEADY_S: Final = 1.0
"""A command that ends sooner after it was ready has failed."""
FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 5.0
SPARE_AFTER_S: Final = 2.0
"""So long after a command is ready another process is prepared for its place."""
_PR_SET_PDEATHSIG: Final = 1
_CREDENTIALS: Final = struct.Struct("3i")
_FORWARDED: Final = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, *_FORWARDED)


def pause_s(failures: int) -> float:
    """Return how long to wait before the next start, in seconds: the first failure is followed at once."""
    return 0.0 if failures < 2 else min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 2, 10))


@dataclass(slots=True)
class _Child:
    pid: int
    ready_s: float | None = None
    stop_by_s: float | None = None
    """When it is killed, if it was asked to end; monotonic seconds."""


@dataclass(slots=True)
class _Spare:
    """A process that has loaded the program and waits to become the command (`quicksilver.standby_process`)."""

    pid: int
    control: socket.socket


@dataclass(slots=True)
class Keeper:
    """One command and its sockets."""

    command: Sequence[str]
    kept: dict[str, list[int]] = field(default_factory=dict)
    """Descriptors by name."""
    warm: bool = False
    """Whether a spare process stands by: the next start then takes no time to load the program."""
    _child: _Child | None = None
    _spare: _Spare | None = None
    _stopping: bool = False
    _was_ready: bool = False
    _failures: int = 0
    _start_at_s: float = 0.0
    _spare_at_s: float = 0.0
    _leaving: list[int] = field(default_factory=list)
    """Spares that are not wanted any more."""

    def run(self) -> int:
        """Run the command until this process is asked to end; returns the exit code for it."""
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox,
            selectors.DefaultSelector() as selector,
            contextlib.ExitStack() as stack,
        ):
            inbox.bind("")  # an abstract name that the kernel chooses
            inbox.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            inbox.setblocking(False)
            wake, waker = socket.socketpair()
            stack.callback(wake.close)
            stack.callback(waker.close)
            stack.callback(self._close_all)
            self._catch_signals(waker)
            selector.register(inbox, selectors.EVENT_READ)
            selector.register(wake, selectors.EVENT_READ)
            address = f"@{inbox.getsockname()[1:].decode()}"
            while True:
                code = self._step(selector, inbox, wake, address)
                if code is not None:
                    return code

    def _step(
        self, selector: selectors.BaseSelector, inbox: socket.socket, wake: socket.socket, address: str
    ) -> int | None:
        """Start what is to be started, wait for what happens next, and take it in; an exit code ends it all."""
        now_s = time.monotonic()
        if self._child is None and not self._stopping and now_s >= self._start_at_s:
            self._child = _Child(self._promote() or self._fork(lambda: self._environment(address)))
        self._prepare(now_s, address)
        ready = {key.fileobj for key, _ in selector.select(self._wait_s(now_s))}
        if inbox in ready:
            self._read(inbox)
        if wake in ready:
            for number in wake.recv(256):
                self._signalled(number)
        self._kill_late()
        self._reap_spares()
        code = self._reap(inbox)
        if code is None and self._stopping and self._child is None:
            return 0
        return code

    def _wait_s(self, now_s: float) -> float | None:
        if self._child is None:
            return max(0.0, self._start_at_s - now_s)
        times = [self._child.stop_by_s, self._spare_due_s()]
        return min((max(0.0, at_s - now_s) for at_s in times if at_s is not None), default=None)

    # Signals

    def _catch_signals(self, waker: socket.socket) -> None:
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)  # the wakeup descriptor says which

    def _signalled(self, number: int) -> None:
        if number in _FORWARDED:
            self._send(number)
            if number == signal.SIGUSR2:
                self._dismiss()  # it has loaded the code of before
                self._end_within_grace()
        elif number in (signal.SIGTERM, signal.SIGINT):
            self._stopping = True
            self._dismiss()
            self._send(signal.SIGTERM)
            self._end_within_grace()

    def _end_within_grace(self) -> None:
        if self._child is not None and self._child.stop_by_s is None:
            self._child.stop_by_s = time.monotonic() + GRACE_S

    def _kill_late(self) -> None:
        child, now_s = self._child, time.monotonic()
        if child is not None and child.stop_by_s is not None and now_s >= child.stop_by_s:
            self._send(signal.SIGKILL)
            child.stop_by_s = now_s + GRACE_S

    def _send(self, number: int) -> None:
        if self._child is not None:
            os.kill(self._child.pid, number)  # it is not reaped yet: the pid is its own

    # The command

    def _fork(self, environment: Callable[[], dict[str, str]]) -> int:
        """Start the command; returns its pid. The environment is made in the new process."""
        keeper = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # one for the command waits until it has its own handlers
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            return pid
        try:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
            if os.getppid() != keeper:
                os._exit(1)  # the keeper ended in between
            os.execvpe(self.command[0], list(self.command), environment())
        except OSError as error:
            os.write(2, f"quicksilver: error: {self.command[0]}: cannot be started: {error.strerror}\n".encode())
        os._exit(127)

    def _environment(self, address: str) -> dict[str, str]:
        """Put the kept sockets where the command looks for them (in the forked process), and say so."""
        kept = [(name, number) for name, numbers in self.kept.items() for number in numbers]
        free = fdstore.FIRST_FD + len(kept)
        moved = [_above(number, free) for _, number in kept]
        for at, number in enumerate(moved):
            os.dup2(number, fdstore.FIRST_FD + at, inheritable=True)
        env = os.environ | {"NOTIFY_SOCKET": address}
        if kept:
            env["LISTEN_PID"], env["LISTEN_FDS"] = str(os.getpid()), str(len(kept))
            env["LISTEN_FDNAMES"] = ":".join(name for name, _ in kept)
        return env

    # The spare

    def _spare_due_s(self) -> float | None:
        """Return when a spare is to be prepared; None while none is."""
        ready_s = self._child.ready_s if self._child is not None else None
        if not self.warm or self._spare is not None or self._stopping or ready_s is None:
            return None
        return max(ready_s + SPARE_AFTER_S, self._spare_at_s)

    def _prepare(self, now_s: float, address: str) -> None:
        due_s = self._spare_due_s()
        if due_s is None or now_s < due_s:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()

            def environment() -> dict[str, str]:
                os.set_inheritable(number, True)
                return os.environ | {"NOTIFY_SOCKET": address, standby_process.VARIABLE: str(number)}

            self._spare = _Spare(self._fork(environment), ours)

    def _promote(self) -> int | None:
        """Let the spare be the command, with the kept sockets; None where there is none that could."""
        ready, self._spare = self._spare, None
        if ready is None:
            return None
        kept = [(name, number) for name, numbers in self.kept.items() for number in numbers]
        try:
            with ready.control:
                ready.control.setblocking(False)
                standby_process.send(ready.control, kept)
        except OSError as error:
            print(f"quicksilver keep: the spare is of no use: {error}", file=sys.stderr, flush=True)
            self._leaving.append(ready.pid)
            return None
        return ready.pid

    def _dismiss(self) -> None:
        if self._spare is not None:
            self._spare.control.close()
            self._leaving.append(self._spare.pid)
            self._spare = None

    def _reap_spares(self) -> None:
        if self._spare is not None and os.waitpid(self._spare.pid, os.WNOHANG)[0]:
            self._spare.control.close()
            self._spare, self._spare_at_s = None, time.monotonic() + MAX_PAUSE_S
        self._leaving = [pid for pid in self._leaving if not os.waitpid(pid, os.WNOHANG)[0]]

    def _reap(self, inbox: socket.socket) -> int | None:
        """Take in the command's end; returns an exit code where this ends the keeper too."""
        child = self._child
        if child is None:
            return None
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if not pid:
            return None
        self._read(inbox)  # what it sent before it ended
        asked = child.stop_by_s is not None
        self._child = None
        code = os.waitstatus_to_exitcode(status)
        code = 128 - code if code < 0 else code
        if self._stopping:
            return code if code != 128 + signal.SIGKILL else 1
        if not self._was_ready:
            return code or 1
        now_s = time.monotonic()
        steady = asked or (child.ready_s is not None and now_s - child.ready_s >= STEADY_S)
        self._failures = 0 if steady else self._failures + 1
        self._start_at_s = now_s + pause_s(self._failures)
        what = "ended as asked" if asked else f"ended with {code}"
        print(f"quicksilver keep: {self.command[0]} {what}; it is started again", file=sys.stderr, flush=True)
        return None

    # What it says

    def _read(self, inbox: socket.socket) -> None:
        """Take in the command's messages; those of others are closed and forgotten."""
        while True:
            try:
                data, ancillary, _, sender = _receive(inbox)
            except BlockingIOError:
                return
            if self._child is None or sender != self._child.pid:
                _close(ancillary)
                continue
            self._message(data.decode(errors="replace").splitlines(), ancillary)

    def _message(self, lines: Sequence[str], descriptors: list[int]) -> None:
        assert self._child is not None
        fields = dict(line.split("=", 1) for line in lines if "=" in line)
        name = fields.get("FDNAME", "stored").replace(":", "_")
        if fields.get("READY") == "1" and self._child.ready_s is None:
            self._child.ready_s = time.monotonic()
            self._was_ready = True
            fdstore.ready()
        if fields.get("FDSTOREREMOVE") == "1":
            _close(self.kept.pop(name, []))
        if fields.get("FDSTORE") == "1":
            room = MAX_KEPT - sum(len(numbers) for numbers in self.kept.values())
            self.kept.setdefault(name, []).extend(descriptors[:room])
            descriptors = descriptors[room:]
        _close(descriptors)

    def _close_all(self) -> None:
        for numbers in self.kept.values():
            _close(numbers)
        self.kept.clear()


def _receive(inbox: socket.socket) -> tuple[bytes, list[int], int, int]:
    """Return a message, its descriptors, flags, and its sender's pid. Raises BlockingIOError when there is none."""
    numbers = array.array("i")
    room = socket.CMSG_SPACE(253 * numbers.itemsize) + socket.CMSG_SPACE(_CREDENTIALS.size)
    data, ancillary, flags, _ = inbox.recvmsg(4096, room, socket.MSG_CMSG_CLOEXEC)
    sender = 0
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(payload[: len(payload) - len(payload) % numbers.itemsize])
        elif level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            sender = _CREDENTIALS.unpack_from(payload)[0]
    return data, list(numbers), flags, sender


def _above(number: int, lowest: int) -> int:
    """Return a copy of a descriptor at `lowest` or above."""
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, lowest)


def _close(numbers: Sequence[int]) -> None:
    for number in numbers:
        os.close(number)


@click.command("keep", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--spare/--no-spare", "warm", default=True, show_default=True, help="Have the next process loaded.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def keep(command: tuple[str, ...], warm: bool) -> None:
    """Run COMMAND (after `--`) of quicksilver, hold its sockets, and start it again when it ends.

    Who connects between an end and the next start waits instead of being refused. SIGUSR2 has it end in order and
    replaced by a new one (new code, the same sockets); SIGHUP goes to it; SIGTERM and SIGINT end both. A command that
    fails at its very first start ends the keeper with its exit code. A spare process that has loaded the program stands
    by, so that the next start takes a part of a second.
    """
    raise SystemExit(Keeper([sys.executable, "-m", "quicksilver", *command], warm=warm).run())
