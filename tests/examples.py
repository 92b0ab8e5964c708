"""What of a test the gate has: a share of the examples of hypothesis, the first values of a parameter."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from tests.gate.steps import SHARE


def of_share(examples: int) -> int:
    """Return how many of so many examples are drawn, at least ten."""
    return max(10, round(examples * float(os.environ.get(SHARE, "1"))))


def others_long(values: Sequence[Any], kept: int = 1) -> list[Any]:
    """Return the values of a parameter, marked `long` but for the first ones.

    values: in their order; a tuple stands for several parameters.
    """

    def marked(value: Any) -> Any:
        return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.long)

    return [*values[:kept], *map(marked, values[kept:])]
