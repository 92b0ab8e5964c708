"""The steps of `make test` and `make test-all`, and what each may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.gate.lanes import CLUSTERS

_REAL: Final = ("promise", "hadoop", "cgroup", "docker", "kerberos", "postgres", "netns", "root", "vm")
FOREIGN: Final = (*_REAL, "browser", "packages", "daemon", "long", "alone")
"""Markers of tests that the first step leaves out."""
_DEAL: Final = ("--dist", "loadscope", "--no-loadscope-reorder")
ALONE_MARK: Final = "mark.alone"
"""What stands in each module with tests that run alone: the step finds them by it."""
SHARE: Final = "QUICKSILVER_TEST_EPISODES"
SEED: Final = "QUICKSILVER_TEST_SEED"


@dataclass(frozen=True)
class Step:
    """One run of pytest.

    wall_limit_s: when it is taken for hanging; cpu_limit_s: how many CPU seconds of all its processes are a failure.
    """

    name: str
    arguments: tuple[str, ...]
    wall_limit_s: float
    cpu_limit_s: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


UNITS: Final = Step(
    "units",
    (
        *("-n", "{cores+1}", *_DEAL, "-m", " and ".join(f"not {marker}" for marker in FOREIGN)),
        *("--ignore", "tests/vm", "--ignore", "tests/promise", "--durations=15"),
        *("-o", "timeout=120", "-o", "faulthandler_timeout=300"),
    ),
    wall_limit_s=900,
    cpu_limit_s=580,  # times the slowness; measured at a slowness of 1.28: 527 s
    environment={SHARE: "0.3"},
)
"""What needs no cluster, root, daemon or browser."""
PROMISE: Final = Step(
    "promise",
    ("-n", "3", *_DEAL, "-m", "promise and not long", "tests/promise", "--durations=15"),
    wall_limit_s=1800,
    cpu_limit_s=760,  # times the slowness; measured at 1.23: 679 s
    environment={CLUSTERS: "3"},
)
"""What quicksilver promises, on real clusters, three at a time: tasks that sleep, and jobs that wait for heartbeats."""
_LONG: Final = ("-o", "faulthandler_timeout=3600")
"""More than any test's own limit."""
TOGETHER: Final = Step("together", ("-n", "{cores+1}", *_DEAL, *_LONG, "-m", "not alone"), wall_limit_s=6 * 3600)
ALONE: Final = Step("alone", (*_LONG, "-m", "alone", "{alone}"), wall_limit_s=6 * 3600)
"""What measures or loads the machine; modules without such tests are not even read."""

GATE: Final = (UNITS, PROMISE)
ALL: Final = (TOGETHER, ALONE)
