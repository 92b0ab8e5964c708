"""Answers of the REST API on applications, running and finished. Times are Unix seconds."""

from __future__ import annotations

from typing import Literal

from rm_proxy.views.cluster_models import ApplicationInfo
from rm_proxy.views.history_models import LedgerRow

State = Literal["running", "finished", "unknown"]


class ApplicationEntry(ApplicationInfo):
    """An application of the list."""

    state: State = "running"
    """unknown: the proxy knew it, nothing of it lives here now, and its end was not reported."""
    elapsed_s: float | None = None
    """From its submission to its end, or until now; null where either time is not known."""
    ledger: LedgerRow | None = None
    """Sums over its containers, of those that do not run any more; null where the store has none."""
