"""Use of the nodes by guaranteed containers, stored between runs of the proxy."""

from __future__ import annotations

from typing import Final

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from rm_proxy.coordinator.nodes.usage_history import MAX_NODES, SLOTS, Week, weeks_of
from rm_proxy.domain.records import UseRecord
from rm_proxy.store.store import Store
from rm_proxy.store.tables import NodeUseRow

_FETCH_ROWS: Final = 10_000


def stored_usage(store: Store) -> dict[str, Week]:
    """Return the weeks of the nodes, at most MAX_NODES of them. Raises StoreUnavailableError."""
    columns = [getattr(NodeUseRow, name) for name in UseRecord.__slots__]
    query = select(*columns).order_by(NodeUseRow.at_s.desc()).limit(MAX_NODES * SLOTS)
    try:
        with Session(store.engine) as session:
            rows = session.execute(query.execution_options(yield_per=_FETCH_ROWS))
            return weeks_of(UseRecord(*row) for row in rows)
    except SQLAlchemyError as error:
        raise store.unavailable(error) from error
