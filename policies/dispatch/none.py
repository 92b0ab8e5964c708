"""No order: whoever heartbeats first gets the places that are free, and none is kept for anyone."""

from __future__ import annotations

from policies.base import NoSettings, Policy
from policies.waiting import WaitingApp


def key(applicant: WaitingApp, cfg: NoSettings, now_s: float) -> tuple[float, ...]:
    """Return an empty key: no application goes before another."""
    return ()


POLICY = Policy("none", NoSettings, key)
