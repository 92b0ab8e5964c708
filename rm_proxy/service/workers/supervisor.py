"""The first process of a proxy of several: it forks the front and the workers, and replaces those that end.

It makes the store's tables first, does nothing else, and has one thread. If it dies, the kernel ends all of them: the
next start is a restart of the proxy.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import uvloop

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process import fdstore, watchdog
from quicksilver.common.process.logs import get_logger
from quicksilver.common.process.parent import end_with
from rm_proxy.coordinator.workers.spread import Spread
from rm_proxy.service.workers import sockets
from rm_proxy.service.workers.front import Front
from rm_proxy.service.workers.tables import make_tables
from rm_proxy.service.workers.worker import SERVES, StartParts, Worker

log = get_logger(__name__)
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)
_SIGNALS: Final = (*_STOP_SIGNALS, signal.SIGHUP)
_TICK_S: Final = 1.0
_STOP_S: Final = 10.0
"""Time for all processes to end."""
_PAUSE_MAX_S: Final = 5.0
NAME_PREFIX: Final = "qs-"
"""The processes are qs-worker-0, qs-front and so on in `ps -o comm`."""
_COMM: Final = Path("/proc/self/comm")
FRONT: Final = -1
"""In place of a worker's number: the process that accepts."""


@dataclass(slots=True)
class _ProxyProcess:
    number: int
    pid: int
    life: socket.socket
    """The supervisor's end of the channel to it; it says each second that it lives."""
    begun_s: float
    heard_s: float
    serves: bool = False


class WorkerSupervisor:
    """`run()` ends on SIGTERM, SIGINT or SIGUSR2, after all processes."""

    def __init__(self, start: StartParts, listen: socket.socket, rest: socket.socket) -> None:
        self._start, self._listen, self._rest = start, listen, rest
        self._count = start.settings.workers
        self._channels = [sockets.channel() for _ in range(self._count)]
        """For each worker: the front's end, and the worker's; they outlive both."""
        self._children: dict[int, _ProxyProcess] = {}
        self._failures: dict[int, int] = {}
        self._due_s: dict[int, float] = {}
        """Processes that are to be started, and when."""
        self._stop_by_s: float | None = None
        self._is_ready = False
        self._failure = ""
        """The process that ended before all of them served for the first time."""

    def run(self) -> None:
        """Keep all processes until stopped. Raises QuicksilverError when one ends before all serve."""
        make_tables(self._start.settings.endpoints(self._start.conf).store_url)
        for each in _SIGNALS:
            signal.signal(each, self._on_signal)
        for number in (*range(self._count), FRONT):
            self._spawn(number, anew=False)
        try:
            while self._stop_by_s is None or self._children:
                self._look()
                for number in [number for number, due_s in self._due_s.items() if time.monotonic() >= due_s]:
                    if self._stop_by_s is None:
                        self._spawn(number, anew=True)
                    del self._due_s[number]
        finally:
            for child in self._children.values():
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
            for sock in (self._listen, self._rest, *(end for ends in self._channels for end in ends)):
                sock.close()
        if self._failure:
            raise QuicksilverError("it ended before it served", place=self._failure, remedy="see its own log line")

    # Start

    def _spawn(self, number: int, *, anew: bool) -> None:
        end, theirs = sockets.channel()
        sys.stderr.flush()
        parent = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # the handler must know which processes to signal
        pid = os.fork()
        if pid == 0:
            end.close()
            self._be_child(number, theirs, anew, parent)
        theirs.close()
        now_s = time.monotonic()
        child = self._children[number] = _ProxyProcess(number, pid, end, now_s, now_s)
        if number != FRONT:
            self._link(child)
        log.info("process started", process=_name(number), pid=pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def _link(self, child: _ProxyProcess) -> None:
        """Give a new worker and each other one the two ends of a link."""
        for peer in self._children.values():
            if peer.number in (FRONT, child.number):
                continue
            ends = socket.socketpair()
            for side, opposite, end in ((child, peer, ends[0]), (peer, child, ends[1])):
                try:
                    sockets.send(side.life, sockets.PeerSocket(opposite.number), [end.fileno()])
                except OSError as error:  # it has just ended, and will be replaced with all links
                    log.warning("a link cannot be handed over", process=_name(side.number), why=str(error))
                end.close()

    def _be_child(self, number: int, supervisor: socket.socket, anew: bool, parent: int) -> None:
        """Never returns."""
        code = 1
        try:
            end_with(parent)
            _COMM.write_text(f"{NAME_PREFIX}{_name(number).replace(' ', '-')}")
            os.environ.pop("NOTIFY_SOCKET", None)  # the supervisor reports for all
            fdstore.close_all()
            for child in self._children.values():
                child.life.close()
            for each in _STOP_SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can reload
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            uvloop.run(self._front(supervisor) if number == FRONT else self._worker(number, supervisor, anew))
            code = 0
        except QuicksilverError as error:
            log.error("a process of the proxy failed", process=_name(number), why=str(error))
        except Exception:
            log.exception("a process of the proxy failed", process=_name(number))
        finally:
            os._exit(code)

    async def _worker(self, number: int, supervisor: socket.socket, anew: bool) -> None:
        self._listen.close()
        self._rest.close()
        for worker, (front_end, worker_end) in enumerate(self._channels):
            front_end.close()
            if worker != number:
                worker_end.close()
        process = Worker(Spread(number, self._count), self._start)
        await process.serve(supervisor, self._channels[number][1], anew=anew)

    async def _front(self, supervisor: socket.socket) -> None:
        for _, worker_end in self._channels:
            worker_end.close()
        start = self._start
        front = Front(start.settings, start.settings.endpoints(start.conf).upstream, [end for end, _ in self._channels])
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, stop.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: None)
        loop.add_reader(supervisor, stop.set)  # nothing is sent to the front: the supervisor is gone
        await front.start(self._listen, self._rest)
        while not stop.is_set():
            with suppress(BlockingIOError):
                supervisor.send(SERVES)
            try:
                async with asyncio.timeout(_TICK_S):
                    await stop.wait()
            except TimeoutError:
                continue
        front.close()

    # Watch

    def _look(self) -> None:
        """Wait a moment for signs of life; replace what ended or hangs."""
        by_life = {child.life: child for child in self._children.values()}
        readable = select.select(list(by_life), [], [], _TICK_S if not self._due_s else 0.05)[0]
        now_s = time.monotonic()
        for life in readable:
            child = by_life[life]
            signs = _signs(life)
            child.heard_s, child.serves = now_s, child.serves or SERVES in signs
            if b"" in signs:
                self._end(child)
        for child in list(self._children.values()):
            late = self._stop_by_s is not None and now_s > self._stop_by_s
            if late or now_s - child.heard_s > watchdog.SILENT_S:
                log.error("a process hangs: killed", process=_name(child.number), silent_s=round(now_s - child.heard_s))
                os.kill(child.pid, signal.SIGKILL)
                self._end(child)
        watchdog.alive()
        if not self._is_ready and all(child.serves for child in self._children.values()):
            self._is_ready = True
            log.info("all processes of the proxy serve", workers=self._count)
            fdstore.ready()

    def _end(self, child: _ProxyProcess) -> None:
        """Wait for a process that ended, and have it replaced."""
        del self._children[child.number]
        child.life.close()
        code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        if self._stop_by_s is not None:
            return
        if not self._is_ready:  # as a proxy of one process: a first start that fails is not tried again
            self._failure = _name(child.number)
            self._on_signal(signal.SIGTERM, None)
            return
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        now_s = time.monotonic()
        lived_s = now_s - child.begun_s
        log.error("a process ended: another one takes over", process=_name(child.number), why=how, lived_s=lived_s)
        failures = self._failures[child.number] = 0 if child.serves else self._failures.get(child.number, 0) + 1
        self._due_s[child.number] = now_s + (min(_PAUSE_MAX_S, 0.1 * 2**failures) if failures else 0.0)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        to_stop = number in _STOP_SIGNALS
        if to_stop and self._stop_by_s is None:
            self._stop_by_s = time.monotonic() + _STOP_S
        for child in self._children.values():
            os.kill(child.pid, signal.SIGTERM if to_stop else number)


def _signs(life: socket.socket) -> set[bytes]:
    """Read all signs of life that wait; b"" is among them when the process is gone."""
    signs: set[bytes] = set()
    while b"" not in signs:
        try:
            signs.add(life.recv(64))
        except BlockingIOError:
            break
        except ConnectionError:
            signs.add(b"")
    return signs


def _name(number: int) -> str:
    return "front" if number == FRONT else f"worker {number}"
