"""No tokens: a container that its route made queueable stays so."""

from __future__ import annotations

from policies.admission import Admission
from policies.base import NoSettings, Policy
from policies.model import Ask, QueueView


def admit(ask: Ask, queue: QueueView, cfg: NoSettings) -> Admission | None:
    """Return None: the route decides."""
    return None


POLICY = Policy("none", NoSettings, admit)
