"""YARN's nodes, applications and queues, read by REST for the coordinator, and its rounds; APScheduler is the clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from itertools import islice
from time import monotonic
from typing import Final, TypeVar

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.kerberos.keytab import Keytab
from quicksilver.common.process import watchdog
from quicksilver.common.process.logs import get_logger
from rm_proxy.config import ProxySettings
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.nodes.nodes import Node
from rm_proxy.coordinator.promotion_choice import promotes
from rm_proxy.coordinator.rounds import BREAK_EVERY
from rm_proxy.domain.records import AppRecord
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.reading_pace import ReadingPace
from rm_proxy.store.writer import Writer
from rm_proxy.yarn.client import AUTO_UPDATE, YarnRest

T = TypeVar("T")
log = get_logger(__name__)
FIRST_CAPACITY_S: Final = 1.0
"""Seconds between two readings of the queues while no capacity is known though nodes report."""
SEEN_EVERY_S: Final = 60.0
"""Seconds between two records of a node that did not change."""
ENDS_A_LOOK: Final = 50
"""Applications without a master here whose end is looked up in one refresh, at most."""
LATE_S: Final = 60.0
"""How much later than a younger one an application may appear in the list."""
UNKNOWN_S: Final = 180.0
"""A ResourceManager answers REST before it has recovered its applications, which takes minutes where they are many."""


class YarnPoller:
    """Reads nodes, applications and queues on their own clocks, and an application at once when it appears."""

    def __init__(
        self,
        coordinator: Coordinator,
        writer: Writer,
        metrics: ProxyMetrics,
        settings: ProxySettings,
        rm_web: str,
        on_round: Callable[[], None],
        on_fault: Callable[[], None],
        rest: Callable[[str, float, Keytab | None], YarnRest] = YarnRest,
    ) -> None:
        """`on_fault` is called for a round that raised; the next one is tried as usual. rest: reads."""
        self._coordinator, self._writer, self._metrics = coordinator, writer, metrics
        self._settings, self._on_round, self._on_fault = settings, on_round, on_fault
        keytab = settings.keytab()
        self._yarn, self._lookup = (rest(rm_web, settings.rm_timeout_s, keytab) for _ in range(2))
        self._scheduler = AsyncIOScheduler()
        self._down: dict[str, str] = {}
        self._looking_up: dict[str, asyncio.Task[None]] = {}
        self._rereading: asyncio.Task[None] | None = None
        self._recorded: dict[str, tuple[object, float]] = {}
        """By node: its last record, and the time of it."""
        self._closed = False
        self._unknown_since_s: dict[str, float] = {}
        """Applications of ours that YARN does not know, with the first time (monotonic)."""
        self._without_end: set[str] = set()
        """Applications that are over, and of whose end the ResourceManager knows nothing."""
        self._newest_s = 0.0
        """The latest submission that was read, by the ResourceManager's clock."""
        self._read_at_once()

    def start(self) -> None:
        """Start the clocks; everything is read once at once."""
        jobs = (
            (self._round, self._settings.round_s),
            (self.nodes, self._settings.nodes_refresh_s),
            (self.apps, self._settings.apps_refresh_s),
            (self.queues, self._settings.queues_refresh_s),
            (self.first_capacity, min(FIRST_CAPACITY_S, self._settings.queues_refresh_s)),
        )
        for job, seconds in jobs:
            self._scheduler.add_job(
                self._until_closed,
                "interval",
                args=(job,),
                name=job.__name__,
                seconds=seconds,
                max_instances=1,
                coalesce=True,
                misfire_grace_time=None,
            )
        self._scheduler.start()

    def soon(self) -> None:
        """Read everything at once: another ResourceManager, or the same one started anew, is there."""
        self._yarn.begin_anew()
        self._rereading = asyncio.get_running_loop().create_task(self.first())

    async def first(self) -> None:
        """Read everything once."""
        self._read_at_once()
        await asyncio.gather(self.identity(), self.grants(), self.nodes(), self.apps(), self.queues())

    def _read_at_once(self) -> None:
        settings = self._settings
        self._nodes_pace, self._apps_pace = ReadingPace(settings.nodes_refresh_s), ReadingPace(settings.apps_refresh_s)

    async def identity(self) -> None:
        """Find out which run of the ResourceManager serves, where containers are granted in its name."""
        if not self._coordinator.minter.on:
            return
        cluster = await self._read("info", self._yarn.cluster)
        if cluster is not None:
            self._coordinator.minter.ring.serves(cluster.epoch_ms)

    async def grants(self) -> None:
        """Find out whether the ResourceManager grants queueable containers, by its version and configuration."""
        try:
            why_none = await self._yarn.why_no_grants()
        except QuicksilverError as error:  # it refuses /conf, or does not answer yet: the first containers tell
            log.info("it is not known how the ResourceManager grants queueable containers", why=str(error))
        else:
            self._coordinator.grants.configured(why_none)

    async def _until_closed(self, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job; one that `close` cut off is no failure, which the scheduler would log."""
        try:
            await job()
        except asyncio.CancelledError:
            if not self._closed:
                raise

    async def close(self) -> None:
        """Stop the clocks, and cut off the calls that are open."""
        self._closed = True
        self._scheduler.shutdown(wait=False)
        tasks = [*self._looking_up.values(), *([self._rereading] if self._rereading else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._yarn.close()
        await self._lookup.close()

    async def _round(self) -> None:
        watchdog.alive()  # also where rounds fail: that is for the error budget
        try:
            begun_s, away_s = monotonic(), 0.0
            for _ in self._coordinator.rounds.in_parts(time.time()):
                break_s = monotonic()
                await asyncio.sleep(0)  # application masters are answered meanwhile
                away_s += monotonic() - break_s
            self._on_round()
            self._metrics.round_s.observe(monotonic() - begun_s - away_s)
        except Exception:
            log.exception("a round of the coordinator failed")
            self._on_fault()

    async def nodes(self) -> None:
        """Read the nodes, unless the list is long and was read a moment ago."""
        await self.identity()
        pace = self._nodes_pace
        if not pace.due(monotonic()):
            return
        nodes = await self._read("nodes", self._yarn.nodes)
        if nodes is not None:
            pace.took(self._yarn.cost_s["/nodes"], monotonic())
            now_s = time.time()
            self._coordinator.yarn_nodes(nodes, now_s)
            self._recorded = {n: seen for n, seen in self._recorded.items() if n in self._coordinator.nodes}
            for node in self._coordinator.nodes.values():
                self._record(node, now_s)

    def _record(self, node: Node, now_s: float) -> None:
        """Record a node: at once when it changed, else every SEEN_EVERY_S."""
        view = node.view
        seen = view.host, view.rack, view.label, view.capacity
        known = self._recorded.get(node.id)
        if known is None or known[0] != seen or now_s - known[1] >= SEEN_EVERY_S:
            self._recorded[node.id] = seen, now_s
            self._writer.node(view, now_s)

    async def apps(self) -> None:
        """Read running applications, and known ones that are not running any more: those have ended, and when.

        Where the list is long and was read a moment ago, only new applications are read.
        """
        pace = self._apps_pace
        whole = pace.due(monotonic())
        since_s = 0.0 if whole else max(0.0, self._newest_s - LATE_S)
        apps = await self._read("apps", lambda: self._yarn.apps(since_s=since_s))
        if apps is None:
            return
        for number, record in enumerate(apps, 1):
            self._known(record)
            self._newest_s = max(self._newest_s, record.submitted_s)
            if number % BREAK_EVERY == 0:
                await asyncio.sleep(0)
        if whole:
            pace.took(self._yarn.cost_s["/apps"], monotonic())
            await self._look_for_ends(apps)

    async def _look_for_ends(self, apps: Collection[AppRecord]) -> None:
        """Read known applications that are not among the running ones."""
        running = {record.id for record in apps}
        app_ids = {a.app_id for a in self._coordinator.attempts.values() if not a.finished}
        records = self._coordinator.inventory.records
        self._without_end &= records.keys()
        ended = {r.id for r in records.values() if r.finished_s is None} - running - app_ids - self._without_end
        missing = (app_ids - running).union(islice(sorted(ended), ENDS_A_LOOK))
        self._unknown_since_s = {app_id: at_s for app_id, at_s in self._unknown_since_s.items() if app_id in missing}
        for app_id in missing:
            await self._look_up(app_id)

    async def queues(self) -> None:
        """Read the queues."""
        queues = await self._read("scheduler", self._yarn.queues)
        if queues is not None:
            self._coordinator.inventory.update_queues(queues)
        if promotes(self._coordinator.policies):
            await self._ask_promotion()

    async def first_capacity(self) -> None:
        """Read the queues while their capacities are not known: no container is queueable without them."""
        if self._coordinator.inventory.lacks_capacity:
            await self.queues()

    async def _ask_promotion(self) -> None:
        """Find out whether promotion works there; what the proxy's own Hadoop configuration says holds until then."""
        promotes = await self._read("conf", self._yarn.auto_update)
        if promotes is not None:
            self._coordinator.features.promoter.why_off = (
                "" if promotes else f"{AUTO_UPDATE} is not true in the ResourceManager"
            )

    def application(self, app_id: str) -> asyncio.Task[None] | None:
        """Look an application up at once unless it is known; returns that reading, which may be under way already."""
        if self._coordinator.apps.app(app_id) is not None:
            return None
        if app_id not in self._looking_up:
            task = asyncio.get_running_loop().create_task(self._look_up(app_id))
            self._looking_up[app_id] = task
            task.add_done_callback(lambda _: self._looking_up.pop(app_id, None))
        return self._looking_up[app_id]

    async def _look_up(self, app_id: str) -> None:
        answer = await self._read("apps", lambda: self._looked_up(app_id))
        if answer is not None:
            self._handle_record(app_id, answer[0])

    async def _looked_up(self, app_id: str) -> tuple[AppRecord | None]:
        return (await self._lookup.app(app_id),)

    def _handle_record(self, app_id: str, record: AppRecord | None) -> None:
        """Handle YARN's answer about an application; one unknown for UNKNOWN_S did not survive a restart of YARN."""
        if record is not None:
            self._unknown_since_s.pop(app_id, None)
            self._known(record)
        elif monotonic() - self._unknown_since_s.setdefault(app_id, monotonic()) >= UNKNOWN_S:
            self._unknown_since_s.pop(app_id)
            self._without_end.add(app_id)
            self._coordinator.inventory.unknown_app(app_id)

    def _known(self, record: AppRecord) -> None:
        changed = self._coordinator.inventory.update_app(record)
        if changed is not None:
            self._writer.application(changed)

    async def _read(self, name: str, call: Callable[[], Awaitable[T]]) -> T | None:
        """Call YARN's REST; a failure is counted, and logged once until it works again."""
        try:
            result = await call()
        except QuicksilverError as error:
            self._metrics.rm_rest_errors.labels(name).inc()
            if name not in self._down:
                log.warning("the ResourceManager's REST fails; the last known state is used", what=name, why=str(error))
            self._down[name] = str(error)
            return None
        if self._down.pop(name, None) is not None:
            log.info("the ResourceManager's REST answers again", what=name)
        return result

    @property
    def failures(self) -> dict[str, str]:
        """Resources that cannot be read now, and why."""
        return dict(self._down)
