"""`quicksilver supervise`: runs a command, holds its sockets, and restarts it when it ends.

For development, containers and hosts without systemd, whose protocol it speaks
(quicksilver/common/process/fdstore.py). It does nothing else, so that few things can end it. When it is killed, the
kernel kills the command as well: its addresses are free at once for another supervisor, and the next command recovers
as after any crash.
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

from quicksilver.common.process import fdstore, watchdog
from quicksilver.common.process.parent import end_with
from quicksilver.common.process.watchdog import SILENT_S
from quicksilver.process import standby_process
from quicksilver.process.standby_process import Standby

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes 1 MB
    from typing import Final

MAX_STORED: Final = 8192
"""Limit of stored sockets; further ones are closed on arrival."""
HANG_S: Final = SILENT_S
"""Time after which a command that reported that it works, and does so no more, is ended and restarted, seconds."""
ABORT_S: Final = 2.0
"""Time in which a hung command writes its stack to the log, before it is killed, seconds."""
LOOK_S: Final = 5.0
"""How often a command's reports are checked, and this process's own is sent, seconds."""
GRACE_S: Final = 15.0
"""Time for an orderly end before the command is killed, seconds."""
STEADY_S: Final = 1.0
"""A command that ends within this time after it was ready has failed, seconds."""
FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 5.0
STANDBY_AFTER_S: Final = 2.0
"""Delay between a command's readiness and the start of a standby process, if it forked none, seconds."""
_PR_SET_CHILD_SUBREAPER: Final = 36
_CREDENTIALS: Final = struct.Struct("3i")
_FORWARDED: Final = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, *_FORWARDED)


def pause_s(failures: int) -> float:
    """Return how long to wait before the next start, in seconds: the first failure is followed at once."""
    return 0.0 if failures < 2 else min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 2, 10))


class _Child:
    __slots__ = ("alive_s", "hung", "pid", "ready_s", "stop_by_s")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ready_s: float | None = None
        self.stop_by_s: float | None = None
        """When it is killed, if it was asked to end; monotonic seconds."""
        self.alive_s: float | None = None
        """When it last reported that it works; None before the first report."""
        self.hung = False


class Supervisor:
    """One command and its sockets."""

    def __init__(self, command: Sequence[str], *, use_standby: bool = False) -> None:
        """Prepare. use_standby: have a standby process, so that the next start takes no time to load the program."""
        self.command, self.use_standby = command, use_standby
        self.stored: dict[str, list[int]] = {}
        """Descriptors of the sockets by name."""
        self._child: _Child | None = None
        self._standby: Standby | None = None
        self._stopping = self._was_ready = False
        self._failures = 0
        self._start_at_s = self._looked_s = self._standby_at_s = 0.0

    def run(self) -> int:
        """Run the command until this process is asked to end; return its exit code."""
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
            _adopt_orphans()
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
        """Start what is due, wait for an event and handle it; return an exit code when the supervisor has to end."""
        now_s = time.monotonic()
        if self._child is None and not self._stopping and now_s >= self._start_at_s:
            self._child = _Child(self._promote() or self._start(address))
        self._prepare(now_s, address)
        ready = {key.fileobj for key, _ in selector.select(self._wait_s(now_s))}
        if inbox in ready:
            self._read(inbox)
        if wake in ready:
            for number in wake.recv(256):
                self._signalled(number)
        self._end_hung()
        self._kill_late()
        code = self._reap(inbox)
        self._reap_others()
        if code is None and self._stopping and self._child is None:
            return 0
        return code

    def _wait_s(self, now_s: float) -> float | None:
        if self._child is None:
            return max(0.0, min(self._start_at_s - now_s, LOOK_S))
        times = [self._child.stop_by_s, self._standby_due_s()]
        return min((max(0.0, at_s - now_s) for at_s in times if at_s is not None), default=LOOK_S)

    # Signals

    def _catch_signals(self, waker: socket.socket) -> None:
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)  # the wakeup descriptor has the number

    def _signalled(self, number: int) -> None:
        if number in _FORWARDED:
            self._send(number)
            if number == signal.SIGUSR2:
                self._dismiss()  # it has loaded the old code
                self._end_within_grace()
        elif number in (signal.SIGTERM, signal.SIGINT):
            self._stopping = True
            self._dismiss()
            self._send(signal.SIGTERM)
            self._end_within_grace()

    def _end_within_grace(self) -> None:
        if self._child is not None and self._child.stop_by_s is None:
            self._child.stop_by_s = time.monotonic() + GRACE_S

    def _end_hung(self) -> None:
        """End a command that reports no more. Silence while this process stood still itself does not count."""
        child, now_s = self._child, time.monotonic()
        stood_still = now_s - self._looked_s > 2 * LOOK_S
        self._looked_s = now_s
        watchdog.alive()
        if child is None or child.alive_s is None or child.stop_by_s is not None:
            return
        if stood_still:
            child.alive_s = now_s
        elif now_s - child.alive_s >= HANG_S:
            text = f"{self.command[0]} hangs, silent for {now_s - child.alive_s:.0f} s: it is aborted"
            print(f"quicksilver supervise: {text}", file=sys.stderr, flush=True)
            child.hung, child.stop_by_s = True, now_s + ABORT_S
            self._send(signal.SIGABRT)

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
        """Start the command; return its pid. The environment is built in the new process."""
        supervisor = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # the command gets signals when it has its own handlers
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            return pid
        try:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            end_with(supervisor)
            os.execvpe(self.command[0], list(self.command), environment())
        except OSError as error:
            os.write(2, f"quicksilver: error: {self.command[0]}: cannot be started: {error.strerror}\n".encode())
        os._exit(127)

    def _start(self, address: str) -> int:
        """Start the command, which forks its standby process; return its pid."""
        if not self.use_standby:
            return self._fork(lambda: self._environment(address, None))
        end, standby_end = standby_process.pair()
        with standby_end:
            pid = self._fork(lambda: self._environment(address, standby_end.fileno()))
        self._standby = Standby(end)
        return pid

    def _environment(self, address: str, successor: int | None) -> dict[str, str]:
        """In the forked process: move the stored sockets to where the command expects them; return its environment.

        successor: the socket of the standby process that the command forks.
        """
        stored = self._stored()
        free = fdstore.FIRST_FD + len(stored)
        moved = [_above(number, free) for _, number in stored]
        successor = _above(successor, free) if successor is not None else None
        for at, number in enumerate(moved):
            os.dup2(number, fdstore.FIRST_FD + at, inheritable=True)
        env = os.environ | {"NOTIFY_SOCKET": address}
        if successor is not None:
            os.set_inheritable(successor, True)
            env[standby_process.SUCCESSOR] = str(successor)
        if stored:
            env["LISTEN_PID"], env["LISTEN_FDS"] = str(os.getpid()), str(len(stored))
            env["LISTEN_FDNAMES"] = ":".join(name for name, _ in stored)
        return env

    # The standby process

    def _standby_due_s(self) -> float | None:
        """Return when a standby process is due; None while none is."""
        ready_s = self._child.ready_s if self._child is not None else None
        if not self.use_standby or self._standby is not None or self._stopping or ready_s is None:
            return None
        return max(ready_s + STANDBY_AFTER_S, self._standby_at_s)

    def _prepare(self, now_s: float, address: str) -> None:
        """Start a standby process where there is none, and none to come."""
        if self._standby is not None and not self._standby.is_expected():
            self._forget_standby()
        due_s = self._standby_due_s()
        if due_s is None or now_s < due_s:
            return
        end, standby_end = standby_process.pair()
        with standby_end:
            number = standby_end.fileno()

            def environment() -> dict[str, str]:
                os.set_inheritable(number, True)
                return os.environ | {"NOTIFY_SOCKET": address, standby_process.VARIABLE: str(number)}

            self._standby = Standby(end, self._fork(environment))

    def _promote(self) -> int | None:
        """Turn the standby process into the command, with the stored sockets; return its pid, or None without one."""
        ready, self._standby = self._standby, None
        if ready is None:
            return None
        if not ready.is_expected() or ready.pid is None:
            ready.control.close()
            return None
        end, standby_end = standby_process.pair()
        try:
            with standby_end:
                ready.promote(self._stored(), standby_end)
        except OSError as error:
            end.close()
            print(f"quicksilver supervise: standby process failed: {error}", file=sys.stderr, flush=True)
            return None
        self._standby = Standby(end)
        return ready.pid

    def _stored(self) -> list[tuple[str, int]]:
        return [(name, number) for name, numbers in self.stored.items() for number in numbers]

    def _dismiss(self) -> None:
        if self._standby is not None:
            self._standby.control.close()
            self._standby = None

    def _forget_standby(self) -> None:
        self._dismiss()
        self._standby_at_s = time.monotonic() + MAX_PAUSE_S

    def _reap_others(self) -> None:
        """Reap standby processes, and what the command left behind."""
        while (ended := _ended()) is not None:
            if self._child is not None and ended.si_pid == self._child.pid:
                return  # it ended just now: SIGCHLD wakes this process again
            os.waitpid(ended.si_pid, 0)
            if self._standby is not None and ended.si_pid == self._standby.pid:
                self._forget_standby()

    def _reap(self, inbox: socket.socket) -> int | None:
        """Handle the end of the command; return an exit code when the supervisor has to end as well."""
        child = self._child
        if child is None:
            return None
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if not pid:
            return None
        self._read(inbox)  # what it sent before it ended
        by_request = child.stop_by_s is not None and not child.hung
        self._child = None
        code = os.waitstatus_to_exitcode(status)
        code = 128 - code if code < 0 else code
        if self._stopping:
            return code if code != 128 + signal.SIGKILL else 1
        if not self._was_ready:
            return code or 1
        now_s = time.monotonic()
        steady = by_request or (child.ready_s is not None and now_s - child.ready_s >= STEADY_S)
        self._failures = 0 if steady else self._failures + 1
        self._start_at_s = now_s + pause_s(self._failures)
        outcome = "ended as requested" if by_request else f"ended with {code}"
        print(f"quicksilver supervise: {self.command[0]} {outcome}; restarting it", file=sys.stderr, flush=True)
        return None

    # Messages of the command

    def _read(self, inbox: socket.socket) -> None:
        """Handle the command's messages; drop those of other processes and close their descriptors."""
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
        if fields.get("WATCHDOG") == "1":
            self._child.alive_s = time.monotonic()
        if fields.get("FDSTOREREMOVE") == "1":
            _close(self.stored.pop(name, []))
        if fields.get("FDSTORE") == "1":
            room = MAX_STORED - sum(len(numbers) for numbers in self.stored.values())
            self.stored.setdefault(name, []).extend(descriptors[:room])
            descriptors = descriptors[room:]
        _close(descriptors)

    def _close_all(self) -> None:
        for numbers in self.stored.values():
            _close(numbers)
        self.stored.clear()


def _adopt_orphans() -> None:
    """Become the parent of processes whose parent ends below this one: the standby process that a command forked."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _ended() -> os.waitid_result | None:
    """Return a child that has ended, without reaping it; None when there is none."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None


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
