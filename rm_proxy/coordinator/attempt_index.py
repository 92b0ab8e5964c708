"""Index of all attempts: by id, by application, by the containers that they hold; and the few that are alive."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.domain.ids import app_of_container


class AttemptIndex(OrderedDict[str, Attempt]):
    """All remembered attempts in order of arrival; the work of each second only needs `living`."""

    def __init__(self) -> None:
        super().__init__()
        self.by_app: dict[str, list[Attempt]] = {}
        """By application, the oldest first."""
        self._living: dict[str, Attempt] = {}
        """Attempts that live, and those that ended since `closed` was called."""
        self.touched: dict[str, Attempt] = {}
        """Attempts of whose containers a sidecar reported something; the journal takes them from here."""

    def __setitem__(self, attempt_id: str, attempt: Attempt) -> None:
        """Remember an attempt, in place of another of its id."""
        super().__setitem__(attempt_id, attempt)
        self._living[attempt_id] = attempt

    def clear(self) -> None:
        """Forget all attempts."""
        super().clear()
        self.by_app.clear()

    def forget_app(self, app_id: str) -> list[Attempt]:
        """Forget the attempts of an application; returns them."""
        attempts = self.by_app.pop(app_id, [])
        for attempt in attempts:
            self.pop(attempt.id, None)
        return attempts

    def living(self) -> Iterator[Attempt]:
        """Yield the attempts that live."""
        return (attempt for attempt in self.recent() if not attempt.finished)

    def living_of(self, app_id: str) -> list[Attempt]:
        """Return the attempts of an application that live."""
        return [attempt for attempt in self.by_app.get(app_id, ()) if not attempt.finished]

    def recent(self) -> list[Attempt]:
        """Return the attempts that live, or ended since `closed` was called."""
        return [attempt for attempt in self._living.values() if self.get(attempt.id) is attempt]

    def closed(self) -> None:
        """Drop ended attempts from `recent`: their work is done."""
        for attempt_id in [i for i, a in self._living.items() if a.finished or self.get(i) is not a]:
            del self._living[attempt_id]

    def holder(self, container_id: str) -> Attempt | None:
        """Return the attempt that holds a container: its own one, or a later one that took it over."""
        of_app = self.by_app.get(app_of_container(container_id), ())
        return next((attempt for attempt in reversed(of_app) if attempt.containers.hears_of(container_id)), None)

    def is_held(self, container_id: str) -> bool:
        """Return whether an attempt holds a container."""
        return self.holder(container_id) is not None

    def live(self, container_id: str) -> HeldContainer | None:
        """Return a container that an application holds, None when none does."""
        attempt = self.holder(container_id)
        return attempt.live.get(container_id) if attempt is not None else None
