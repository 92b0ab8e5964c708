"""What Apollo's evaluation tells of tasks (§5.1, §5.3), gathered while they run."""

from __future__ import annotations

from array import array

from quicksilver.report.stats import percentile


class ApolloFigures:
    """Waits of regular tasks, errors of what was expected of them, and who used the slots."""

    def __init__(self) -> None:
        """Begin."""
        self._waits_s = array("d")
        self._errors_s = array("d")
        self._regular_s = self._extra_s = 0.0

    def waited(self, seconds: float, expected_s: float) -> None:
        """Note what a task waited that was sent as a regular one."""
        self._waits_s.append(seconds)
        self._errors_s.append(abs(seconds - expected_s))

    def ran(self, regular_s: float, extra_s: float) -> None:
        """Note a try that is over or was killed: how long it was a regular one, and an opportunistic one."""
        self._regular_s += regular_s
        self._extra_s += extra_s

    def summary(self) -> dict[str, float]:
        """Return the figures; none of what never happened."""
        figures = {}
        if self._waits_s:
            figures["regular_wait_p95_s"] = percentile(self._waits_s, 95)
            figures["wait_error_below_1s_share"] = sum(error < 1 for error in self._errors_s) / len(self._errors_s)
        if whole_s := self._regular_s + self._extra_s:
            figures["opportunistic_share"] = self._extra_s / whole_s
        return figures
