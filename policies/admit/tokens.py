"""Let containers with a token go guaranteed, and others be queueable within an allowance (Apollo, OSDI '14, §3.5).

A YARN queue is a virtual cluster: its tokens are a part of its guaranteed capacity, and guaranteed containers use them.
"""

from __future__ import annotations

from policies.admission import Admission, Standing
from policies.base import Policy
from policies.common.tokens import Tokens, TokenShare, allowance, has_token, tokens_of
from policies.model import Ask, QueueView


class AdmitTokens(TokenShare, Tokens):
    """Settings of tokens."""


def admit(ask: Ask, queue: QueueView, cfg: AdmitTokens) -> Admission | None:
    """Return whether the container has a token, is within the allowance of its application, or waits."""
    if has_token(ask.app, ask.resources, queue, cfg):
        return Admission(Standing.REGULAR, "tokens: has a token")
    allowed = allowance(tokens_of(ask.app, cfg), cfg)
    if ask.app.live_q < allowed:
        return Admission(Standing.OPPORTUNISTIC, f"tokens: opportunistic, within its allowance of {allowed}")
    return Admission(Standing.WAITS, f"tokens: waits: beyond its allowance of {allowed}")


POLICY = Policy("tokens", AdmitTokens, admit)
