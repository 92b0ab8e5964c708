"""The attached containers of a resizer, each with its record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from sidecar.resizer.base import Resizer, ResizeRefusedError

R = TypeVar("R")


class AttachedTable(Generic[R]):
    """The containers that one resizer has attached, each with its record. `name`: the resizer, for errors."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._records: dict[str, R] = {}
        self.get = self._records.get

    def __getitem__(self, container_id: str) -> R:
        """Return a container's record. Raises ResizeRefusedError when it is not attached."""
        try:
            return self._records[container_id]
        except KeyError:
            raise ResizeRefusedError(container_id, self._name, "it is not attached", gone=True) from None

    def __setitem__(self, container_id: str, record: R) -> None:
        """Store a container's record."""
        self._records[container_id] = record

    def __delitem__(self, container_id: str) -> None:
        """Forget a container."""
        del self._records[container_id]

    def __contains__(self, container_id: object) -> bool:
        """Return whether a container is attached."""
        return container_id in self._records

    def __iter__(self) -> Iterator[str]:
        """Yield the attached containers; they may be detached meanwhile."""
        return iter(list(self._records))


def detach_all(resizer: Resizer, attached: Iterable[str]) -> None:
    """Detach all containers, and continue after a refusal. Raises the last ResizeRefusedError."""
    last: ResizeRefusedError | None = None
    for container_id in attached:
        try:
            resizer.detach(container_id)
        except ResizeRefusedError as error:
            last = error
    if last is not None:
        raise last
