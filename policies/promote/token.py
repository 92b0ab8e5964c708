"""Make a queueable container guaranteed when its application and its YARN queue have a free token (Apollo §3.5).

Guaranteed containers use tokens, whatever made them guaranteed; `admit: tokens` gives the same ones to new containers.
"""

from __future__ import annotations

from policies.base import Policy
from policies.common.promotable import Worth, ran_s, worth
from policies.common.tokens import TokenShare, has_token
from policies.model import AppView, ContainerView, QueueView


class TokenPromotion(Worth, TokenShare):
    """Settings of token."""


def promote(running: ContainerView, app: AppView, queue: QueueView, cfg: TokenPromotion, now_s: float) -> str | None:
    """Return why a running container is to become guaranteed; None when no token is free."""
    if not worth(running, cfg, now_s) or not has_token(app, running.resources, queue, cfg):
        return None
    return f"token: it ran {ran_s(running, now_s):.1f} s, and has a token now"


POLICY = Policy("token", TokenPromotion, promote)
