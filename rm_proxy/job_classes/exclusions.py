"""Keeps the guaranteed containers of an application attempt off hosts: names on its blacklist that its AM never sees.

The ResourceManager has one blacklist for each application, of the names that were added and not removed. Ours come
with the application master's own requests, and go out again until an answer confirms them.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y

_NOBODY: Final[frozenset[str]] = frozenset()


class Exclusions:
    """The hosts that the ResourceManager keeps an attempt off for us."""

    def __init__(self) -> None:
        self.busy = False
        """Whether the ResourceManager has, or may have, any host of ours: else only `rewrite` has anything to do."""
        self._known: Set[str] = _NOBODY
        """Hosts that the ResourceManager has by an answer."""
        self._sent: Set[str] | None = None
        """What it has when the request that has no answer yet is answered."""
        self.maybe: frozenset[str] = _NOBODY
        """Hosts that it may have of ours, for the journal."""

    def restore(self, hosts: Iterable[str]) -> None:
        """Continue from what an earlier process may have sent."""
        self.maybe, self._known, self._sent = frozenset(hosts), _NOBODY, None
        self.busy = bool(self.maybe)

    def start_over(self) -> None:
        """Forget what was confirmed: the ResourceManager may know nothing of it any more."""
        self._known, self._sent = _NOBODY, None

    def due(self, hosts: Set[str]) -> bool:
        """Return whether the next request has to say something, for these hosts to be kept off."""
        return hosts != self._known or not self.maybe <= hosts

    def rewrite(self, request: y.AllocateRequestProto, hosts: frozenset[str], own: Set[str]) -> bool:
        """Add to a request what keeps the attempt off `hosts` alone; returns whether it changed.

        own: what the application master itself has on its blacklist, this request included.
        """
        listed = request.blacklist_request
        removals = [host for host in listed.blacklist_removals if host not in hosts]
        changed = len(removals) < len(listed.blacklist_removals)
        if changed:
            del listed.blacklist_removals[:]
            listed.blacklist_removals.extend(removals)
        self.refused()
        if not self.due(hosts):
            return changed
        entries = {*listed.blacklist_additions, *removals}
        listed.blacklist_additions.extend(sorted(hosts - self._known - entries))
        listed.blacklist_removals.extend(sorted(self.maybe - hosts - own - entries))
        self.maybe |= hosts
        self._sent, self.busy = hosts, True
        return True

    @staticmethod
    def strip(late: y.AllocateRequestProto, own: Set[str]) -> None:
        """Leave in content that is to be sent again what the application master's own list has: ours is added anew."""
        listed = late.blacklist_request
        additions = [host for host in listed.blacklist_additions if host in own]
        removals = [host for host in listed.blacklist_removals if host not in own]
        if listed.ByteSize():
            del listed.blacklist_additions[:], listed.blacklist_removals[:]
            listed.blacklist_additions.extend(additions)
            listed.blacklist_removals.extend(removals)

    def answered(self) -> None:
        """Note that the ResourceManager answered the last request."""
        if self._sent is not None:
            self._known = self.maybe = frozenset(self._sent)
            self._sent, self.busy = None, bool(self.maybe)

    def refused(self) -> None:
        """Note that the ResourceManager handled the last request or not: nobody knows."""
        if self._sent is not None:
            self._known &= self._sent
            self._sent = None
