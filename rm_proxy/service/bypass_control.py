"""Bypass around the coordinator's error budget: counts faults, measures lateness, logs changes, stores orders."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable
from itertools import count
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from quicksilver.common.http.connection import BoundedConnection
from quicksilver.common.process.logs import get_logger
from rm_proxy.attempt.effects import BypassPhase, Turned
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.coordinator.error_budget import FaultKind, Order
from rm_proxy.domain.ids import app_of_attempt
from rm_proxy.domain.records import ChangeRecord
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.connections.costly_attempts import CostlyAttempts
from rm_proxy.store.rows import Row
from rm_proxy.store.store import Store
from rm_proxy.store.tables import ChangeRow
from rm_proxy.store.writer import Writer
from rm_proxy.views.service_models import BypassInfo

MEASURE_S: Final = 0.25
"""How often lateness is measured."""
PATH: Final = "proxy.bypass"
"""Path of an order among the changes of settings."""
_MANY: Final = 1_000
log = get_logger(__name__)


class BypassControl:
    """Between the coordinator's budget and the world; used in the event loop."""

    def __init__(self, coordinator: Coordinator, metrics: ProxyMetrics, writer: Writer) -> None:
        self._coordinator, self._metrics, self._writer = coordinator, metrics, writer
        self._boot, self._numbers = secrets.token_hex(6), count()
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._ordered = False
        self.costly = CostlyAttempts(self._user, coordinator.modes.budget.limits.added_s)

    # Faults and lateness

    def fault(self, kind: FaultKind, app_id: str) -> None:
        """Count a fault; app_id "" when it belongs to no application."""
        self._metrics.faults.labels(kind.value).inc()
        self._coordinator.modes.budget.note(kind, app_id, time.time())

    def loop_fault(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an uncaught exception and count it as a fault, unless a caller's bytes caused it in a REST connection."""
        log.error("a fault in the event loop", what=context.get("message"), exc_info=context.get("exception"))
        if not isinstance(context.get("protocol"), BoundedConnection):
            self.fault(FaultKind.INTERNAL, "")

    def start(self) -> None:
        """Begin to measure how late the event loop does its work."""
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + MEASURE_S
        self._timer = loop.call_at(self._due_s, self._measure, loop)

    def close(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _measure(self, loop: asyncio.AbstractEventLoop) -> None:
        late_s = max(0.0, loop.time() - self._due_s)
        self._metrics.late_s.observe(late_s)
        costly = self.costly.measure(late_s, loop.time())
        attempt = self._coordinator.attempts.get(costly.attempt_id) if costly is not None else None
        if costly is not None and attempt is not None:  # the lateness is that attempt's, and not the proxy's
            attempt.exchange.pass_from_now(costly.why)
        else:
            self._coordinator.modes.budget.measure(late_s, MEASURE_S + late_s, time.time())
        self.start()

    def _user(self, attempt_id: str) -> str:
        """Return the user of an attempt; its own id while YARN's record is not known."""
        app = self._coordinator.inventory.app(app_of_attempt(attempt_id))
        return app.user if app is not None else attempt_id

    # Turns

    def turned(self, turned: Turned) -> None:
        """Log and record that an application, or all of them, entered bypass or left it."""
        scope = {"application": turned.app_id} if turned.app_id else {"applications": "all"}
        if turned.phase is BypassPhase.BYPASS:
            log.error("bypass: nothing new becomes queueable", why=turned.why, **scope)
        elif turned.phase is BypassPhase.TRIAL:
            log.warning("bypass is given up on trial", why=turned.why, **scope)
        else:
            log.info("bypass is over", why=turned.why, **scope)
        self._record("budget", f"{PATH}.{turned.app_id}" if turned.app_id else PATH, "", turned.phase, turned.why)

    def round(self) -> None:
        """Set the gauges."""
        budget = self._coordinator.modes.budget
        state = {
            "order": budget.order == "on",
            "budget": budget.order != "on" and budget.phase is BypassPhase.BYPASS,
            "trial": budget.phase is BypassPhase.TRIAL,
        }
        for reason, holds in state.items():
            self._metrics.bypass.labels(reason).set(holds)
        self._metrics.bypassed.set(len(budget.apps))

    def problems(self) -> list[str]:
        """Return what bypass by the error budget adds to the problems of `quicksilver health`."""
        budget = self._coordinator.modes.budget
        if budget.order == "on":
            return []
        remedy = "see the log; `quicksilver proxy bypass off` ends it, `auto` tries again at once"
        problems = (
            [f"bypass ({budget.phase}): {budget.why}; {remedy}"] if budget.phase is not BypassPhase.ACTIVE else []
        )
        return problems + [f"{app_id} is in bypass: {why}; {remedy}" for app_id, why in list(budget.apps.items())[:10]]

    def ordered(self) -> str:
        """Return bypass by an order as a notice of `quicksilver health`; "" for none."""
        budget = self._coordinator.modes.budget
        if budget.order != "on":
            return ""
        return f"bypass ({budget.phase}): {budget.why}; `quicksilver proxy bypass auto` ends it"

    # Orders

    def info(self) -> BypassInfo:
        """Return the order, the phase, and the applications in bypass with the reasons."""
        budget = self._coordinator.modes.budget
        apps = dict(list(budget.apps.items())[:_MANY])
        return BypassInfo(order=budget.order, phase=budget.phase.value, why=budget.why, applications=apps)

    def order(self, order: Order, author: str) -> BypassInfo:
        """Handle an admin's order, and store it."""
        self._ordered = True
        before = self._coordinator.modes.budget.order
        self._record(author, f"{PATH}.order", before, order)
        log.warning("bypass was ordered", order=order, before=before, who=author)
        self._coordinator.modes.bypass(order, time.time())
        self.round()
        return self.info()

    def _record(self, author: str, path: str, before: str, after: str, why: str = "") -> None:
        number = f"{self._boot}-bypass-{next(self._numbers):06}"
        how = "budget" if author == "budget" else "command"
        self._writer.change(ChangeRecord(number, time.time(), author, how, True, path, before, after, why))

    # Learner: the last order of an earlier run

    def restore(self, orders: tuple[Order, ...]) -> None:
        """Apply the last order before the restart, unless another one came meanwhile."""
        if orders and not self._ordered and orders[0] != self._coordinator.modes.budget.order:
            log.warning("bypass, ordered before the restart, is still in effect", order=orders[0])
            self._coordinator.modes.bypass(orders[0], time.time())

    def changed(self, limit: int, now_s: float) -> Iterable[Row]:
        """Return nothing: orders are written when they are given."""
        return ()


def stored_order(store: Store) -> tuple[Order, ...]:
    """Return the last order, if there was one. Raises StoreUnavailableError."""
    last = select(ChangeRow.after).where(ChangeRow.path == f"{PATH}.order").order_by(ChangeRow.at_s.desc()).limit(1)
    try:
        with store.engine.connect() as connection:
            value = connection.execute(last).scalar()
    except SQLAlchemyError as error:
        raise store.unavailable(error) from error
    return tuple(order for order in ("on", "off", "auto") if order == value)
