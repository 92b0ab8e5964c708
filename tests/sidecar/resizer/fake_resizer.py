"""A resizer in memory, for tests: it records its calls, and refuses the calls that a test names."""

from __future__ import annotations

from sidecar.resizer.base import ContainerUsage, Leader, Resizer, ResizeRefusedError


class Fake(Resizer):
    """Container limits as a dict; `refusals` are used up one by one, by (call, container id)."""

    name = "fake"

    def __init__(self, *, slow: bool = False, pauses_only: bool = False) -> None:
        self.slow, self.pauses_only = slow, pauses_only
        self.leaders: dict[str, Leader] = {}
        self.cores: dict[str, float | None] = {}
        """By attached container: None with full limits, 0 while it is frozen."""
        self.used: dict[str, ContainerUsage] = {}
        self.rewritten: set[str] = set()
        """Containers whose limits another program has changed."""
        self.calls: list[tuple[str, str]] = []
        self.refusals: dict[tuple[str, str], list[str]] = {}
        """Why the next calls are refused; "gone" means that the container is gone."""

    def refuse(self, call: str, container_id: str, *why: str) -> None:
        """Refuse the next `call`s of a container, one for each `why`."""
        self.refusals.setdefault((call, container_id), []).extend(why)

    def attach(self, container_id: str, leader: Leader) -> None:
        self._called("attach", container_id)
        self.leaders[container_id] = leader
        self.cores.setdefault(container_id, None)

    def shrink(self, container_id: str, cores: float) -> None:
        self._attached("shrink", container_id)
        self.cores[container_id] = 0.0 if self.pauses_only else cores

    def freeze(self, container_id: str) -> None:
        self._attached("freeze", container_id)
        self.cores[container_id] = 0.0

    def restore(self, container_id: str) -> None:
        self._attached("restore", container_id)
        self.cores[container_id] = None

    def holds(self, container_id: str) -> bool:
        return container_id in self.leaders and container_id not in self.rewritten

    def reassert(self, container_id: str) -> None:
        self._attached("reassert", container_id)
        self.rewritten.discard(container_id)

    def usage(self, container_id: str) -> ContainerUsage:
        return (
            self.used.get(container_id, ContainerUsage(0.0, 0))
            if container_id in self.leaders
            else ContainerUsage(None, None)
        )

    def detach(self, container_id: str) -> None:
        self._called("detach", container_id)
        self.leaders.pop(container_id, None)
        self.cores.pop(container_id, None)
        self.rewritten.discard(container_id)

    def undo(self, container_id: str) -> dict[str, str | float | int | list[int]]:
        return {"resizer": self.name, "container": container_id}

    def parents(self) -> list[str]:
        """Return no parent groups."""
        return []

    def close(self) -> None:
        """Detach everything."""
        for container_id in list(self.leaders):
            self.detach(container_id)

    def _attached(self, call: str, container_id: str) -> None:
        self._called(call, container_id)
        if container_id not in self.leaders:
            raise ResizeRefusedError(container_id, call, "it is not attached", gone=True)

    def _called(self, call: str, container_id: str) -> None:
        self.calls.append((call, container_id))
        whys = self.refusals.get((call, container_id))
        if whys:
            why = whys.pop(0)
            raise ResizeRefusedError(container_id, call, why, gone=why == "gone")
