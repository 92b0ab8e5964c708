"""Give places to the users of the night shift first."""

from pydantic import Field

from policies.base import Policy, PolicyConfig
from policies.waiting import WaitingApp


class NightFirst(PolicyConfig):
    """Settings of night_first."""

    user: str = Field("night", json_schema_extra={"source": "the night shift"})
    """User whose applications go first."""


def key(applicant: WaitingApp, cfg: NightFirst, now_s: float) -> tuple[float, ...]:
    """Return (0 for the night shift, else 1; submission)."""
    return (float(applicant.app.user != cfg.user), applicant.app.submitted_s)


POLICY = Policy("night_first", NightFirst, key)
