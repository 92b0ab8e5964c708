"""How many examples of hypothesis a test draws that names their number: in the gate a share of them."""

from __future__ import annotations

import os

from tests.gate.steps import SHARE


def of_share(examples: int) -> int:
    """Return how many of so many examples are drawn, at least ten."""
    return max(10, round(examples * float(os.environ.get(SHARE, "1"))))
