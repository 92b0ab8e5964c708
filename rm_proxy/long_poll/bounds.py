"""How long an answer without news may wait, by framework: what else hangs on the thread that waits for it.

MapReduce: a task commits only if its master was answered within the commit window (10 s by default), and releases and
new asks wait behind the call. Tez: zero rows of reused containers wait, and its preemption counts heartbeats. Spark:
the call is made under the allocator's monitor, on which threads of the driver's dispatcher wait. AMRMClientAsync: to
unregister waits for the answer. All of Hadoop 3.4.2, Tez 0.10.5, Spark 3.5.6, Flink 1.20.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policies.config.schema import LongPollSetting

_BOUNDS_S: Final[Mapping[str, tuple[float, float]]] = {
    "MAPREDUCE": (5.0, 8.0),
    "YARN": (2.0, 5.0),
    "TEZ": (1.0, 3.0),
    "SPARK": (1.0, 2.0),
}
"""By application type: short and long (own)."""
_OTHERS_S: Final = (1.0, 2.0)
COMMIT_MARGIN_S: Final = 2.0
"""MapReduce's own pause between two calls, twice: it has to be answered within the commit window."""
LEAST_S: Final = 0.5
"""A shorter wait is not worth it: the call is answered at once."""


def long_poll_s(
    app_type: str, setting: LongPollSetting, commit_window_s: float, by_type_s: Mapping[str, float]
) -> float:
    """Return how long an answer may wait, in seconds; 0 for not at all. by_type_s: the admin's own bounds."""
    if setting == "off":
        return 0.0
    short_s, long_s = _BOUNDS_S.get(app_type, _OTHERS_S)
    bound_s = by_type_s.get(app_type, short_s if setting == "short" else long_s)
    if app_type == "MAPREDUCE":
        bound_s = min(bound_s, commit_window_s - COMMIT_MARGIN_S)
    return bound_s if bound_s >= LEAST_S else 0.0
