"""Random histories of containers ahead of the ResourceManager; the rules are those of tests/model/test_whole.py.

No container runs that the ResourceManager does not know, none is reported to it after its start, and nothing is lost.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.model.ahead import AheadRun
from tests.model.episodes import of_the_day
from tests.model.requestor import Want
from tests.model.test_whole import FAULTS, Whole
from tests.model.world import Fault


class Ahead(Whole):
    """Two jobs, a few nodes."""

    world = AheadRun

    @rule(job=st.integers(0, 1), count=st.integers(1, 4), fault=st.sampled_from(FAULTS))
    def asks_for_maps(self, job: int, count: int, fault: Fault) -> None:
        """Two calls: the first one may have an ask of rows, the second one may meet an open call."""
        for _ in range(count):
            self.am(job).ask(Want(0, 20))
        self.run.heartbeat(self.am(job), fault)
        self.run.heartbeat(self.am(job))

    @rule(node=st.integers(0, 3))
    def sidecar_crashes(self, node: int) -> None:
        """The proxy sees its connection end."""
        node_id = f"{self.nodes[node % len(self.nodes)]}:8041"
        self.run.coordinator.reports.disconnected(node_id, self.run.now_s)
        super().sidecar_crashes(node)

    @invariant()
    def starts_are_known(self) -> None:
        if hasattr(self, "run"):
            self.run.check_starts()


TestAhead = of_the_day(Ahead, 60, 50)
