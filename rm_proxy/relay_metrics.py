"""Counts of the relay, which each heartbeat raises: plain numbers, read when somebody asks for the metrics.

A counter of `prometheus_client` takes a lock each time that it is raised.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector


class RelayCounts(Collector):
    """Bytes relayed and allocate calls, counted in the event loop's thread alone."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.bytes_to_rm = self.bytes_to_am = 0
        self.rewritten = self.passed = 0
        registry.register(self)

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the counts as metrics."""
        bytes_by = {"to_rm": self.bytes_to_rm, "to_am": self.bytes_to_am}
        text = "Bytes relayed, by direction (to_rm, to_am)."
        yield _family("relayed_bytes", text, "direction", bytes_by)
        allocates = {"rewritten": self.rewritten, "passed": self.passed}
        yield _family("allocates", "Allocate calls, by action (rewritten, passed).", "action", allocates)


def _family(name: str, text: str, label: str, values: dict[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"quicksilver_proxy_{name}", text, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family
