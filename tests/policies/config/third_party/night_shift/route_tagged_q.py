"""Route the tasks of tagged applications queueable."""

from random import Random

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.model import Ask, Kind, Route


class TaggedQ(PolicyConfig):
    """Settings of tagged_q."""

    tag: str = Field("night", min_length=1, json_schema_extra={"source": "the night shift"})
    """Tag of the applications whose tasks are queueable."""


def route(ask: Ask, cfg: TaggedQ, rng: Random) -> Route:
    """Return queueable when the application has the tag, else guaranteed."""
    if cfg.tag in ask.app.tags:
        return Route(Kind.QUEUEABLE, f"tagged_q: has the tag {cfg.tag}")
    return Route(Kind.GUARANTEED, f"tagged_q: lacks the tag {cfg.tag}")


POLICY = Policy("tagged_q", TaggedQ, route)
