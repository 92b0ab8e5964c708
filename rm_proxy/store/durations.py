"""Task durations by job name, stored between runs of the proxy."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from rm_proxy.domain.records import DurationRecord
from rm_proxy.estimates.estimator import MAX_KEYS
from rm_proxy.store.store import Store
from rm_proxy.store.tables import Duration


def stored_durations(store: Store) -> list[DurationRecord]:
    """Return the stored rows, the latest first, MAX_KEYS at most. Raises StoreUnavailableError."""
    columns = [getattr(Duration, name) for name in DurationRecord.__slots__]
    query = select(*columns).order_by(Duration.at_s.desc()).limit(MAX_KEYS)
    try:
        with Session(store.engine) as session:
            return [DurationRecord(*row) for row in session.execute(query)]
    except SQLAlchemyError as error:
        raise store.unavailable(error) from error
