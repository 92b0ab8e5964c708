"""Metrics of the app server."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from quicksilver_apps.server.states import State

_BUCKETS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


class AppServerMetrics:
    """All metrics of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.counts: dict[str, int] = {}
        """Applications in each state, as last read."""
        prefix = "quicksilver_app_server"
        self.submissions = Counter(
            f"{prefix}_submissions", "Submissions over REST, by their result.", ["result"], registry=self.registry
        )
        self.transitions = Counter(
            f"{prefix}_transitions", "Changes of state, by the new state.", ["state"], registry=self.registry
        )
        self.applications = Gauge(
            f"{prefix}_applications", "Applications in each state.", ["state"], registry=self.registry
        )
        self.submit_s = Histogram(
            f"{prefix}_submit_seconds", "Duration of submissions to YARN.", buckets=_BUCKETS_S, registry=self.registry
        )
        self.failures = Counter(
            f"{prefix}_backend_failures", "Calls that failed, by what was asked.", ["of"], registry=self.registry
        )
        self.listeners = Gauge(f"{prefix}_event_clients", "Clients of the event stream.", registry=self.registry)
        self.auth_failures = Counter(
            f"{prefix}_auth_failures", "Refused REST calls, by reason.", ["reason"], registry=self.registry
        )

    def set_counts(self, counts: dict[str, int]) -> None:
        """Set how many applications are in each state."""
        self.counts = counts
        for state in State:
            self.applications.labels(state.value).set(counts.get(state.value, 0))

    def exposition(self) -> bytes:
        """Return all of them in Prometheus's text format."""
        return generate_latest(self.registry)
