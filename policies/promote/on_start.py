"""Make a queueable container guaranteed as soon as it runs, so that nothing kills it any more (Mercury, ATC '15, §3.3).

The ResourceManager validates it: it succeeds only while the YARN queue, the user and the node have room for it.
"""

from __future__ import annotations

from policies.base import Policy
from policies.common.promotable import Worth, ran_s, worth
from policies.model import AppView, ContainerView, QueueView


class OnStart(Worth):
    """Settings of on_start."""


def promote(running: ContainerView, app: AppView, queue: QueueView, cfg: OnStart, now_s: float) -> str | None:
    """Return why a running container is to become guaranteed; None when it is too young or nearly over."""
    if not worth(running, cfg, now_s):
        return None
    return f"on_start: it runs since {ran_s(running, now_s):.1f} s, {running.remaining_s:.1f} s are expected to be left"


POLICY = Policy("on_start", OnStart, promote)
