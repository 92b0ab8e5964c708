"""The loop: sessions of mutated steps against fresh targets, findings and interesting sessions kept as files."""

from __future__ import annotations

import re
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import psutil

from quicksilver_lab.bench.fuzz.http_servers import HTTP_TARGETS, HttpTarget, http_steps
from quicksilver_lab.bench.fuzz.sessions import FuzzSessions, read_recordings
from quicksilver_lab.bench.fuzz.targets import MAX_FRAME, OPENING, TARGETS, Step, Target

HANG_S: Final = 10
"""A session that takes longer hangs; one takes milliseconds."""
KEPT_BYTES: Final = 4 * MAX_FRAME
"""More than this kept by one connection is too much: an unfinished frame each way, and calls that wait."""
RSS_MB: Final = 1024
_CORPUS_SESSIONS: Final = 400
_CORPUS_BYTES: Final = 40_000
_WIRE_STEPS: Final = 2
_WORDS: Final = re.compile(r"[0-9a-f]{8,}|\d+|b?'[^']*'|b?\"[^\"]*\"|\([^)]*\)")


class Hung(Exception):
    """A session did not come to its end."""


class KeptTooMuch(Exception):
    """A connection keeps more of what came than it may."""


@dataclass
class FuzzTally:
    """What a run did."""

    frames: Counter[str] = field(default_factory=Counter)
    sessions: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    outcomes: dict[str, set[str]] = field(default_factory=dict)
    findings: dict[str, str] = field(default_factory=dict)
    """The first traceback of each kind."""
    finding_count: int = 0
    kept_bytes_max: int = 0
    session_s_max: float = 0.0


class Fuzzer:
    """One run; everything follows from `seed`."""

    def __init__(self, seed: int, names: Iterable[str], corpus: Path | None, findings: Path | None) -> None:
        self.tally = FuzzTally(outcomes={name: set() for name in names})
        self._seed, self._names = seed, tuple(self.tally.outcomes)
        self._corpus, self._findings = corpus, findings
        self._sessions = FuzzSessions(read_recordings())
        self._process = psutil.Process()
        self._corpus_count = 0

    def run(self, frames: int, until_s: float, say: Callable[[str], None] = lambda _: None) -> None:
        """Feed `frames` frames, or until the clock (time.monotonic) says `until_s`; `say` gets progress."""
        number, next_s = 0, time.monotonic() + 60
        while self.tally.frames.total() < frames and time.monotonic() < until_s:
            name = self._names[number % len(self._names)]
            self.session(name, Random(f"{self._seed}-{number}"))
            number += 1
            if time.monotonic() >= next_s:
                next_s += 60
                say(f"{self.tally.frames.total()} frames, {self.tally.finding_count} findings, {self.rss_mb()} MB")
            if number % 1000 == 0 and self.rss_mb() > RSS_MB:
                self._record("memory", MemoryError(f"{self.rss_mb()} MB resident"), [])
                return

    def rss_mb(self) -> int:
        """Return the resident memory of this process."""
        return int(self._process.memory_info().rss) >> 20

    def session(self, name: str, rng: Random) -> None:
        """Run one session, and keep it when it showed something new."""
        target, done, novel = _target(name), list[Step](), 0
        begun_s = time.perf_counter()
        try:
            with _limit(HANG_S):
                for step in self._steps(target, rng):
                    done.append(step)
                    if self._step(name, target, step):
                        novel = len(done)
                    if target.over:
                        break
        except Exception as error:  # noqa: BLE001 - whatever leaves a target is a finding
            self._record(name, error, done)
        self.tally.sessions[name] += 1
        self.tally.session_s_max = max(self.tally.session_s_max, time.perf_counter() - begun_s)
        if novel and self._corpus is not None and self._corpus_count < _CORPUS_SESSIONS:
            self._keep(
                self._corpus, f"{name}-{self._seed}-{self.tally.sessions[name]}", name, _short(name, done[:novel])
            )

    def _steps(self, target: Target, rng: Random) -> Iterator[Step]:
        return http_steps(target, rng) if isinstance(target, HttpTarget) else self._sessions.steps(target, rng)

    def _step(self, name: str, target: Target, step: Step) -> bool:
        """Feed one step; return whether something came of it that was not seen before."""
        outcome = target.feed(step)
        self.tally.frames[name] += _frames_in(step)
        size = target.kept_bytes()
        self.tally.kept_bytes_max = max(self.tally.kept_bytes_max, size)
        if size > KEPT_BYTES:
            raise KeptTooMuch(f"{size} bytes")
        kind = _WORDS.sub("", outcome)
        if "refused:" in kind:
            self.tally.refused[name] += 1
        if kind in self.tally.outcomes[name]:
            return False
        self.tally.outcomes[name].add(kind)
        return True

    def _record(self, name: str, error: Exception, done: list[Step]) -> None:
        self.tally.finding_count += 1
        where = traceback.extract_tb(error.__traceback__)
        kind = f"{name}: {type(error).__name__} at " + " < ".join(f"{f.name}" for f in reversed(where[-3:]))
        if kind in self.tally.findings:
            return
        self.tally.findings[kind] = "".join(traceback.format_exception(error))
        if self._findings is not None and done:
            self._keep(self._findings, f"{name}-{self._seed}-{self.tally.sessions[name]}", name, done)

    def _keep(self, folder: Path, stem: str, name: str, done: list[Step]) -> None:
        text = write_session(name, done)
        if folder == self._findings or len(text) <= _CORPUS_BYTES:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{stem}.txt").write_text(text)
            self._corpus_count += folder == self._corpus

    def result(self, seconds: float) -> dict[str, Any]:
        """Return the figures."""
        tally = self.tally
        return {
            "frames": tally.frames.total(),
            "frames_by_target": dict(tally.frames),
            "sessions": dict(tally.sessions),
            "sessions_refused": dict(tally.refused),
            "outcomes": {name: len(kinds) for name, kinds in tally.outcomes.items()},
            "findings": tally.finding_count,
            "finding_kinds": tally.findings,
            "kept_bytes_max": tally.kept_bytes_max,
            "session_s_max": round(tally.session_s_max, 3),
            "rss_mb_max": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            "seconds": round(seconds, 1),
        }


def _target(name: str) -> Target:
    return (HTTP_TARGETS[name] if name in HTTP_TARGETS else TARGETS[name])()


def _short(name: str, done: list[Step]) -> list[Step]:
    """Return what shows the last step's outcome: of the wire the last steps alone, on connections that are open."""
    return done if name != "wire" or len(done) <= _WIRE_STEPS else [("client", OPENING), *done[-_WIRE_STEPS:]]


def write_session(name: str, done: Iterable[Step]) -> str:
    """Return a session as text: its target, then a line for each step, bytes in hexadecimal."""
    return "".join([f"{name}\n", *(f"{side} {data.hex()}\n" for side, data in done)])


def read_session(text: str) -> tuple[str, list[Step]]:
    """Return the target and the steps of a session as `write_session` wrote it."""
    name, *lines = text.splitlines()
    parts = [line.partition(" ") for line in lines]
    return name, [(side, bytes.fromhex(data)) for side, _, data in parts]


def replay(text: str) -> str:
    """Run a kept session; return what its last step came to. Raises what a finding raises, or Hung, KeptTooMuch."""
    name, done = read_session(text)
    target, outcome = _target(name), ""
    with _limit(HANG_S):
        for step in done:
            outcome = target.feed(step)
            if target.kept_bytes() > KEPT_BYTES:
                raise KeptTooMuch(f"{target.kept_bytes()} bytes")
    return outcome


def _frames_in(step: Step) -> int:
    """Return how many frames a step brings, by the lengths in it; a part of one counts, an event does not."""
    side, data = step
    if side == "http":
        return 1
    if side not in ("client", "server"):
        return 0
    count, at = 0, 7 if data.startswith(b"hrpc") else 0
    while at < len(data):
        count += 1
        at += 4 + int.from_bytes(data[at : at + 4], "big")
    return count


@contextmanager
def _limit(seconds: int) -> Iterator[None]:
    """Raise Hung after so many seconds of CPU time; only in the main thread."""

    def hung(_number: int, _frame: object) -> None:
        raise Hung(f"more than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, hung)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
