"""A process of a benchmark's own that answers calls, so that what does the work shares no interpreter with the rest."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Final, Protocol, Self

import uvloop

from quicksilver.common.errors import QuicksilverError

_END_S: Final = 30.0


class ChildError(QuicksilverError):
    """What a child was to do failed, or the child ended."""


class ChildServer(Protocol):
    """What lives in a child: its coroutines are called by name, with arguments and results that can be pickled."""

    async def close(self) -> None:
        """End everything."""


class LoadChild:
    """The process; use it in a with block. `make` is called in its event loop, `name` says in errors which it is."""

    def __init__(self, name: str, make: Callable[[], ChildServer]) -> None:
        context = multiprocessing.get_context("spawn")
        self._name = name
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make), daemon=True)
        self._process.start()
        theirs.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a coroutine of what lives there; return its result. Raises ChildError."""
        try:
            self._connection.send((name, arguments))
            answer = self._connection.recv()
        except (EOFError, ConnectionError):
            raise ChildError("the process ended", place=self._name) from None
        if isinstance(answer, str):
            raise ChildError(answer, place=self._name)
        return answer[0]


def _serve(pipe: Connection, make: Callable[[], ChildServer]) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_answer_all(pipe, make))


async def _answer_all(pipe: Connection, make: Callable[[], ChildServer]) -> None:
    served, loop = make(), asyncio.get_running_loop()
    try:
        while True:
            try:
                name, arguments = await loop.run_in_executor(None, pipe.recv)
            except EOFError:
                return
            try:
                result = await getattr(served, name)(*arguments)
            except Exception as error:  # noqa: BLE001 - it is sent to the parent process
                pipe.send(f"{type(error).__name__}: {error}")
            else:
                pipe.send((result,))
    finally:
        await served.close()
