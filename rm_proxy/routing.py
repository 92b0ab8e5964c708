"""Routing of what an application attempt wants: guaranteed or queueable, and where a queueable one waits."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Final

from hadoop_rpc.protos import yarn_pb2 as y
from policies.errors import PolicyFaultError
from policies.model import AppView, Ask, Kind, QueueView, Resources, Route
from rm_proxy import frameworks, ids
from rm_proxy.asks import ANY, AskTable, Entry, QPlacement, Reason, beyond_memory_and_cpu, resources_of
from rm_proxy.live import LiveContainers
from rm_proxy.world import Effect, Faulted, FellBack, World

MAX_TRIES: Final = 3
"""Nodes that are asked for one queueable container before it goes guaranteed."""
MAX_PLACED: Final = 200
"""Queueable containers placed for one allocate request; the rest waits for the next."""
MAX_CREDITS: Final = 10_000


class Router:
    """The choices for one application attempt; it changes the shares of its ask table."""

    def __init__(self, attempt_id: str, app_id: str, world: World, table: AskTable, live: LiveContainers) -> None:
        self.attempt_id, self.app_id = attempt_id, app_id
        self.blacklist: set[str] = set()
        self.maximum: Resources | None = None
        self.effects: list[Effect] = []
        self._world, self._table, self._live = world, table, live
        self._credits: dict[Resources, deque[int]] = {}

    @property
    def app(self) -> AppView | None:
        """The application with everything that this attempt holds and has asked for; None while it is not known."""
        app = self._world.app(self.app_id)
        if app is None:
            return None
        count, wanted = 0, Resources()
        for entry in self._table.entries.values():
            n = entry.q_wanted + len(entry.pending)
            count += n
            wanted += Resources(entry.resources.memory_mb * n, entry.resources.vcores * n)
        return self._live.count_in(app, count, wanted)

    def remember_loss(self, resources: Resources, retries: int) -> None:
        """Note that a queueable container was shed or killed: the next ask of its size counts as its retry."""
        credits = self._credits.setdefault(resources, deque(maxlen=MAX_CREDITS))
        credits.append(retries + 1)

    def route(self, entry: Entry, now_s: float) -> None:
        """Decide on the containers of `entry` that have no share yet, or take back what is no longer wanted."""
        count = entry.undecided
        if count < 0:
            self._table.shrink(entry, -count)
            return
        app = self.app
        always = self._always_guaranteed(entry, app)
        if app is None or always is not None:
            entry.add_g(count, always or "the application is not known yet", now_s)
            return
        queue = self._world.queue(app.queue) or QueueView(app.queue)
        for _ in range(count):
            ask = self.ask(entry, app)
            chosen, queue = self._choose(entry, ask, queue)
            self._put(entry, chosen, now_s)

    def _put(self, entry: Entry, chosen: Route, now_s: float) -> None:
        app = self._world.app(self.app_id)
        mode = "active" if app is None or entry.key.opportunistic else self._world.policies.mode(app)
        if chosen.kind is Kind.QUEUEABLE and mode == "active":
            entry.add_q(1, chosen.reason, now_s)
        elif mode == "shadow":
            entry.add_g(1, f"shadow mode: {chosen.kind} ({chosen.reason})", now_s, chosen.kind)
        else:
            entry.add_g(1, chosen.reason, now_s)

    def _choose(self, entry: Entry, ask: Ask, queue: QueueView) -> tuple[Route, QueueView]:
        """Return the route of one container, and the queue's view with it counted."""
        policies = self._world.policies
        if entry.key.opportunistic:
            return Route(Kind.QUEUEABLE, "the application asked for an OPPORTUNISTIC container"), queue
        try:
            chosen = policies.route(ask, self._world.rng)
            over = policies.quota(ask, queue) if chosen.kind is Kind.QUEUEABLE else None
        except PolicyFaultError as error:
            self.effects.append(Faulted(self.app_id, str(error)))
            return Route(Kind.GUARANTEED, f"a policy failed: {error}"), queue
        if chosen.kind is Kind.GUARANTEED:
            return chosen, queue
        if over is not None:
            return Route(Kind.GUARANTEED, over), queue
        user = ask.app.user
        by_user = dict(queue.user_used_q)
        by_user[user] = by_user.get(user, Resources()) + ask.resources
        return chosen, replace(queue, used_q=queue.used_q + ask.resources, user_used_q=by_user)

    def _always_guaranteed(self, entry: Entry, app: AppView | None) -> str | None:
        """Return why no policy may make this key queueable; None when it may."""
        capability = y.ResourceProto.FromString(entry.key.capability)
        if app is None:
            return "the application is not known yet"
        if self._world.policies.mode(app) == "bypass":
            return "bypass mode"
        if beyond_memory_and_cpu(capability):
            return "asks for more than memory and vcores"
        if not ids.fits(entry.key.request_id):
            return f"request id {entry.key.request_id} is too large"
        if self.maximum is not None and not resources_of(capability).fits(self.maximum):
            return "asks for more than the maximum allocation, which only the ResourceManager may judge"
        if entry.key.opportunistic:
            return None
        label = self._label(entry, app)
        queue = self._world.queue(app.queue)
        if label and (queue is None or not queue.labels & {label, "*"}):
            return f"queue {app.queue} is not known to reach nodes labelled {label}"
        live = self._live.precedences(app.type)
        if frameworks.must_be_guaranteed(app.type, entry.key.priority, live):
            return "deadlock guard: containers of the application that wait for it run already"
        return None

    def _label(self, entry: Entry, app: AppView) -> str:
        row = entry.rows.get(ANY)
        label = row.node_label_expression.strip() if row is not None else ""
        if label:
            return label
        queue = self._world.queue(app.queue)
        return queue.default_label if queue is not None else ""

    def ask(self, entry: Entry, app: AppView, retries: int | None = None) -> Ask:
        """Return one container of `entry` as the policies see it; takes a retry credit when `retries` is None."""
        if retries is None:
            credits = self._credits.get(entry.resources)
            retries = credits.popleft() if credits else 0
        hosts, racks = entry.hosts_and_racks()
        row = entry.rows.get(ANY)
        return Ask(
            app=app,
            priority=entry.key.priority,
            resources=entry.resources,
            request_id=entry.key.request_id,
            hosts=hosts,
            racks=racks,
            anywhere=row is None or row.relax_locality,
            label=self._label(entry, app),
            blacklist=frozenset(self.blacklist),
            expected_s=self._world.expected_s(app, entry.key.priority),
            retries=retries,
        )

    def place_wanted(self, now_s: float) -> None:
        """Place queueable containers that wait for a node; where none may take one it goes guaranteed."""
        left = MAX_PLACED
        app = self.app
        for entry in list(self._table.entries.values()):
            while app is not None and left and entry.q_wanted:
                left -= 1
                if not self._place_one(entry, app, now_s):
                    break

    def _place_one(self, entry: Entry, app: AppView, now_s: float) -> bool:
        """Place one container; False when the entry has to stay as it is (OPPORTUNISTIC by the application's wish)."""
        ask = self.ask(entry, app, retries=0)
        placement = self._world.place(ask, frozenset(), now_s)
        if placement.node is None and entry.key.opportunistic:
            return False
        reason = entry.take_q()
        assert reason is not None
        if placement.node is None:
            self._fall_back(entry, reason, placement.reason or "no node may take it")
            return True
        node = self._world.node(placement.node)
        assert node is not None
        self._table.place(entry, ask, placement, node.host, node.rack, reason)
        return True

    def steer_ungranted(self, now_s: float) -> None:
        """Steer what the last answers did not grant to other nodes; after MAX_TRIES it goes guaranteed."""
        for q in list(self._table.by_private.values()):
            placement = self._world.place(q.ask, q.tried, now_s) if q.tries < MAX_TRIES else None
            if placement is not None and placement.node is not None:
                node = self._world.node(placement.node)
                assert node is not None
                self._table.steer(q, placement, node.host, node.rack)
            else:
                self._give_up(q)

    def _give_up(self, q: QPlacement) -> None:
        self._table.park(q)
        reason = Reason(q.reason, q.asked_s, 1)
        if q.entry.key.opportunistic:
            q.entry.add_q(1, q.reason, q.asked_s)
        else:
            self._fall_back(q.entry, reason, f"{q.tries} nodes did not grant it")

    def _fall_back(self, entry: Entry, reason: Reason, why: str) -> None:
        entry.add_g(1, f"fell back to guaranteed: {why} (routed Q: {reason.text})", reason.asked_s)
        self.effects.append(FellBack(self.app_id, why))
