"""How applications and nodes are spread over the workers of a proxy, by their ids alone."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from rm_proxy.domain.ids import app_of_attempt, app_of_container


@dataclass(frozen=True, slots=True)
class Spread:
    """The workers, as the one of number `own` sees them; they are numbered from 0."""

    own: int
    count: int

    def of_app(self, app_id: str) -> int:
        """Return the worker of an application; 0 of what is no application's id."""
        number = app_id.rpartition("_")[2]
        return int(number) % self.count if number.isdecimal() else 0

    def of_attempt(self, attempt_id: str) -> int:
        """Return the worker of an application attempt."""
        return self.of_app(app_of_attempt(attempt_id))

    def of_container(self, container_id: str) -> int:
        """Return the worker of the application to which a container belongs."""
        return self.of_app(app_of_container(container_id))

    def of_node(self, node_id: str) -> int:
        """Return the worker to which a node reports."""
        return crc32(node_id.encode()) % self.count
