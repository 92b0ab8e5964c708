"""Work for one application after the other, of which a single bad one must not end the loop for all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, TypeVar

from quicksilver.common.process.logs import get_logger
from quicksilver_apps.server.backend import BackendUnavailableError
from quicksilver_apps.server.metrics import AppServerMetrics
from quicksilver_apps.server.records import ServedApplication
from quicksilver_apps.server.store.database import DatabaseUnavailableError

P = ParamSpec("P")
T = TypeVar("T")
log = get_logger(__name__)
SAID: Final = 10_000
"""Applications whose last error is remembered, so that the log has it once."""
STORE_ERRORS: Final = 3
"""A store may refuse what belongs to one application; after so many in one pass it is away for all."""


class OneByOne:
    """Does work for single applications; an error of one is counted and logged, and the others go on."""

    def __init__(self, metrics: AppServerMetrics) -> None:
        self._metrics = metrics
        self._reasons: OrderedDict[str, str] = OrderedDict()
        self._store_errors = 0

    def begin(self) -> None:
        """Begin a pass through all applications."""
        self._store_errors = 0

    async def do(
        self, record: ServedApplication, work: Callable[P, Awaitable[T]], *arguments: P.args, **more: P.kwargs
    ) -> T | None:
        """Return the result of `work` with these arguments, None after an error of this application alone.

        Raises BackendUnavailableError, and StoreUnavailableError after STORE_ERRORS of one pass.
        """
        try:
            return await work(*arguments, **more)
        except BackendUnavailableError:
            raise
        except DatabaseUnavailableError as error:
            self._store_errors += 1
            if self._store_errors >= STORE_ERRORS:
                raise
            self._failed(record, error)
        except Exception as error:  # noqa: BLE001 - whatever one user's application brings about, the others go on
            self._failed(record, error)
        return None

    def say(self, record: ServedApplication, why: str) -> None:
        """Log what is wrong with an application, once until it changes."""
        if self._reasons.get(record.id) != why:
            log.warning("one application is left out", application=record.id, user=record.user, why=why)
        self._reasons[record.id] = why
        if len(self._reasons) > SAID:
            self._reasons.popitem(last=False)

    def _failed(self, record: ServedApplication, error: Exception) -> None:
        self._metrics.failures.labels("application").inc()
        why = f"{type(error).__name__}: {error}"[:500]
        if self._reasons.get(record.id) != why:
            log.error("an error of our own, at one application", application=record.id, exc_info=error)
        self.say(record, why)
