"""The stacks of all threads and asyncio tasks as text, within bounds."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from itertools import islice
from types import FrameType
from typing import Final

from quicksilver.common.process.masking import masked

MAX_THREADS: Final = 200
MAX_TASKS: Final = 20_000
"""Tasks that are looked at."""
MAX_KINDS: Final = 200
"""Different stacks of tasks that are shown."""
MAX_DEPTH: Final = 50
"""Frames of one stack, the innermost ones."""
_MAX_NAMES: Final = 5

Stack = tuple[str, ...]


def stacks_text() -> str:
    """Return the stacks; call it in the event loop. Tasks with equal stacks are counted together."""
    return masked("\n".join([*_threads(), *_tasks(asyncio.all_tasks())]) + "\n")


def _threads() -> Iterator[str]:
    named = {thread.ident: thread for thread in threading.enumerate()}
    frames = sys._current_frames()
    yield f"{len(frames)} threads"
    for ident, frame in islice(frames.items(), MAX_THREADS):
        thread = named.get(ident)
        name = "not of Python" if thread is None else f"{thread.name}{', daemon' if thread.daemon else ''}"
        yield f"\nThread {ident} ({name}):"
        yield from _lines(_outward(frame))
    if len(frames) > MAX_THREADS:
        yield f"\n... and {len(frames) - MAX_THREADS} more threads"


def _tasks(tasks: Iterable[asyncio.Task[object]]) -> Iterator[str]:
    kinds: dict[Stack, list[str]] = {}
    every = list(tasks)
    for task in every[:MAX_TASKS]:
        stack = _lines(_of_task(task))
        kinds.setdefault(stack, []).append(task.get_name())
    yield f"\n{len(every)} asyncio tasks, {len(kinds)} different stacks"
    for stack, names in sorted(kinds.items(), key=lambda kind: -len(kind[1]))[:MAX_KINDS]:
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        yield f"\n{len(names)} x {', '.join(sorted(names)[:_MAX_NAMES])}{more}:"
        yield from stack
    if len(kinds) > MAX_KINDS:
        yield f"\n... and {len(kinds) - MAX_KINDS} more stacks of tasks"


def _outward(frame: FrameType | None) -> list[tuple[FrameType, int]]:
    """Return the frames of a thread from the outermost to the innermost one."""
    frames: list[tuple[FrameType, int]] = []
    while frame is not None and len(frames) < MAX_DEPTH:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return frames[::-1]


def _of_task(task: asyncio.Task[object]) -> list[tuple[FrameType, int]]:
    """Return the frames of a task's coroutines, from the task's own to the one that waits."""
    frames: list[tuple[FrameType, int]] = []
    waits: object = task.get_coro()
    while waits is not None and len(frames) < MAX_DEPTH:
        frame = getattr(waits, "cr_frame", None) or getattr(waits, "gi_frame", None)
        if frame is None:
            break
        frames.append((frame, frame.f_lineno))
        waits = getattr(waits, "cr_await", None) or getattr(waits, "gi_yieldfrom", None)
    return frames


def _lines(frames: Iterable[tuple[FrameType, int]]) -> Stack:
    summary = traceback.StackSummary.extract(iter(frames), lookup_lines=False)
    return tuple(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}' for frame in summary)
