"""How many random histories a model test goes through, and which: each day others, in CI too.

QUICKSILVER_TEST_SEED names the day (20261125), QUICKSILVER_TEST_EPISODES the share of the histories (0.3); scripts/test
sets both and prints the seed, so that whoever sees a failure can repeat it.
"""

from __future__ import annotations

import datetime
import os

from hypothesis import seed, settings
from hypothesis.stateful import RuleBasedStateMachine

from tests.gate.steps import SEED, SHARE


def of_the_day(machine: type[RuleBasedStateMachine], max_examples: int, steps: int) -> type:
    """Return the test case of a machine with its share of histories; profiles of conftest.py set their own number."""
    if settings.get_current_profile_name() in ("long", "hunt"):
        return machine.TestCase
    number = int(os.environ.get(SEED) or f"{datetime.datetime.now(datetime.UTC):%Y%m%d}")
    case: type = seed(number)(machine).TestCase
    wanted = round(max_examples * float(os.environ.get(SHARE, "1")))
    case.settings = settings(max_examples=wanted, stateful_step_count=steps, deadline=None, database=None)
    return case
