"""YARN's REST in a proxy of several workers: the first worker reads it, and passes the answers on.

Another one reads for itself while it has no answer: at its start, after a reading of the first worker that failed,
while that one is away, and when another ResourceManager serves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar, cast

from quicksilver.common.errors import QuicksilverError
from rm_proxy.domain.records import AppRecord
from rm_proxy.yarn.client import ALIVE_STATES, YarnRest
from rm_proxy.yarn.models import YarnCluster, YarnNode, YarnQueue

T = TypeVar("T")
READER: Final = 0
"""The worker that reads."""
FRESH_S: Final = 120.0
"""Age of an answer from which on it is none: long lists are read at a slower pace (reading_pace.py)."""
NODES: Final = "nodes"
APPS: Final = "apps"
QUEUES: Final = "queues"
INFO: Final = "info"


class Reading(NamedTuple):
    """What came of one reading."""

    name: str
    value: Any = None
    """None: as before."""
    part: bool = False
    """Whether these are new applications alone."""
    failed: bool = False


class YarnReadings:
    """The last answers, at one worker; pass_on: gets each reading of the first worker."""

    def __init__(self, own: int, pass_on: Callable[[Reading], None]) -> None:
        self._reads, self._pass_on = own == READER, pass_on
        self._answers: dict[str, tuple[Any, float]] = {}

    async def answer(self, name: str, read: Callable[[], Awaitable[T]], *, part: bool = False) -> T:
        """Return an answer: the first worker's, else what `read` returns. part: whether only new ones are read.

        Raises as `read` does.
        """
        if not self._reads:
            value, at_s = self._answers.get(name, (None, 0.0))
            if value is None or monotonic() - at_s > FRESH_S:
                return await read()
            return cast(T, list(value.values()) if name == APPS else value)
        try:
            answer = await read()
        except QuicksilverError:
            self._pass_on(Reading(name, failed=True))
            self._answers.pop(name, None)
            raise
        reading = Reading(name, answer, part)
        self._pass_on(reading if self.received(reading) else Reading(name))
        return answer

    def received(self, reading: Reading) -> bool:
        """Handle a reading of the first worker; return whether it brought something new."""
        name, value, part, failed = reading
        known, _ = self._answers.get(name, (None, 0.0))
        if failed:
            self._answers.pop(name, None)
            return False
        if value is None:
            value = known
        elif name == APPS:
            apps = {app.id: app for app in value}
            value = known | apps if part and known is not None else None if part else apps
        if value is None:
            return False  # what it adds to, or repeats, is not known here
        self._answers[name] = value, monotonic()
        return bool(value != known)

    def whole(self) -> list[Reading]:
        """Return what a new worker has to know."""
        if not self._reads:
            return []
        return [
            Reading(name, list(value.values()) if name == APPS else value) for name, (value, _) in self._answers.items()
        ]

    def forget(self) -> None:
        """Forget all answers."""
        self._answers.clear()


class WorkerYarnRest(YarnRest):
    """The ResourceManager's REST at one worker."""

    def __init__(self, readings: YarnReadings, *parts: Any) -> None:
        """Prepare. parts: as of a `YarnRest`."""
        super().__init__(*parts)
        self._readings = readings

    async def nodes(self) -> list[YarnNode]:
        """Return all nodes that the ResourceManager lists."""
        return await self._readings.answer(NODES, super().nodes)

    async def apps(self, states: Iterable[str] = ALIVE_STATES, since_s: float = 0.0) -> list[AppRecord]:
        """Return the applications in `states`; since_s: only younger ones, where this worker reads."""
        read = super().apps
        if states != ALIVE_STATES:
            return await read(states, since_s)
        return await self._readings.answer(APPS, lambda: read(states, since_s), part=since_s > 0)

    async def queues(self) -> list[YarnQueue]:
        """Return all queues, parents before their children."""
        return await self._readings.answer(QUEUES, super().queues)

    async def cluster(self) -> YarnCluster:
        """Return the state of the ResourceManager."""
        return await self._readings.answer(INFO, super().cluster)

    def begin_anew(self) -> None:
        """Forget the answers of the ResourceManager before."""
        self._readings.forget()
