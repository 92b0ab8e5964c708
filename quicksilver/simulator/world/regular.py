"""What comes regularly in a world: heartbeats of nodes and masters to the ResourceManager, reports of sidecars.

Most of them change nothing on a large cluster. So they are done only where they may, at the times at which they would
have been anyway: a heartbeat of a node where a container ended, or that may be given one; a report of a node that has
containers, or something to tell; a heartbeat of a master that has something to say, or to be told. With `eager` all are
done, and everything else comes out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final, Protocol

from quicksilver.simulator.clock import Clock
from quicksilver.simulator.world.site import Site
from quicksilver.simulator.world.yarn import Yarn

REFRESH: Final = 0
ROUND: Final = 1 << 32
_BEAT: Final = 2 << 32
_TICK: Final = 3 << 32
_MASTER: Final = 4 << 32
"""Places of what is due at one time, a number of a node or job to be added."""


class Periods(Protocol):
    """What is between two of each, in seconds."""

    @property
    def node_beat_s(self) -> float: ...  # noqa: D102
    @property
    def report_s(self) -> float: ...  # noqa: D102
    @property
    def master_beat_s(self) -> float: ...  # noqa: D102
    @property
    def eager(self) -> bool: ...  # noqa: D102


class Regular:
    """Whose turn comes when."""

    def __init__(self, clock: Clock, yarn: Yarn, sites: Mapping[str, Site], setup: Periods) -> None:
        """Prepare."""
        self._clock, self._yarn, self._sites, self._eager = clock, yarn, sites, setup.eager
        self._beat_s, self._report_s, self._master_s = setup.node_beat_s, setup.report_s, setup.master_beat_s
        self._rests, self._from_s = False, clock.now_s
        self._report: Callable[[Site], None] = lambda site: None
        self._masters: dict[int, float] = {}
        """Masters, by when they first heartbeat, or last waited for an answer."""
        self._roused: set[int] = set()
        """Masters that heartbeat next time; the others have nothing to say, and nothing to be told."""
        self._numbers = {node_id: number for number, node_id in enumerate(sites)}
        self._phases: dict[str, float] = {}
        self._beating: set[str] = set()
        self._ticking: set[str] = set()
        yarn.freed = self._freed

    def begin(self, rng: Random, rests: bool, report: Callable[[Site], None]) -> None:
        """Begin, at phases that `rng` draws. rests: whether reports of a node at rest tell nobody anything."""
        self._rests, self._report = rests and not self._eager, report
        for site in self._sites.values():
            self._phases[site.id] = rng.uniform(0, 1)
            self._plan_beat(site)
            self.stir(site)

    # Masters

    def beats(self, number: int) -> None:
        """Note that a master heartbeats now."""
        self._masters.setdefault(number, self._clock.now_s)
        self._roused.discard(number)

    def rouse(self, number: int, beat: Callable[[], None]) -> None:
        """Have a master heartbeat (`beat`) at its next time; before its first one it is not yet there."""
        if number in self._masters and number not in self._roused:
            self._roused.add(number)
            self._clock.regularly(self._masters[number], self._master_s, _MASTER + number, beat)

    # Heartbeats of nodes

    def heartbeat(self, site: Site) -> None:
        """Tell the ResourceManager of a node's ended containers now, and have it hand out others."""
        ended, site.ends = site.ends, []
        parts = [(container_id.split("_"), exit_status) for container_id, exit_status in ended]
        self._yarn.heartbeat(site.id, [(int(words[2]), int(words[4]), status) for words, status in parts])

    def ended(self, site: Site) -> None:
        """Note that a container of a node has ended."""
        self._plan_beat(site)

    def on_demand(self) -> None:
        """Note that guaranteed containers are wanted where none were before."""
        for site in self._sites.values():
            self._plan_beat(site)

    def _freed(self, node_id: str) -> None:
        self._plan_beat(self._sites[node_id])

    def _plan_beat(self, site: Site) -> None:
        if site.id not in self._beating and site.id in self._phases and (self._eager or self._may_change(site)):
            self._beating.add(site.id)
            self._at(site, self._beat_s, _BEAT, self._beat)

    def _may_change(self, site: Site) -> bool:
        if site.ends:
            return True
        node = self._yarn.nodes[site.id]
        return self._yarn.scheduler.wanting and node.used.vcores < node.capacity.vcores

    def _beat(self, site: Site) -> None:
        self._beating.discard(site.id)
        self.heartbeat(site)
        self._plan_beat(site)

    # Reports

    def stir(self, site: Site) -> None:
        """Note that a node is at rest no longer."""
        if site.id not in self._ticking:
            self._ticking.add(site.id)
            self._at(site, self._report_s, _TICK, self._tick)

    def _tick(self, site: Site) -> None:
        self._ticking.discard(site.id)
        site.tick()
        self._report(site)
        if not (self._rests and site.at_rest):
            self.stir(site)

    def _at(self, site: Site, period_s: float, place: int, do: Callable[[Site], None]) -> None:
        first_s = self._from_s + self._phases[site.id] * period_s
        self._clock.regularly(first_s, period_s, place + self._numbers[site.id], do, site)
