"""What a proxy journals, and what the next one restores of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.messages import ContainerEvent, EventKind
from rm_proxy.attempt.snapshot import Note, packed
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.attempt_journal import AttemptJournal
from rm_proxy.service.recovery import Recovery
from tests.rm_proxy.yarn_messages import (
    ATTEMPT,
    Am,
    cid,
    container,
    coordinator,
    event,
    granted_rows,
    node_id,
    report,
    row,
)

REGISTERED = y.RegisterApplicationMasterResponseProto(queue="default").SerializeToString()
OTHER = "appattempt_1700000000000_0002_000001"


class Process:
    """A process of the proxy, as far as its journal goes; at its end nothing is closed in order."""

    def __init__(self, folder: Path) -> None:
        self.metrics = ProxyMetrics()
        self.journal = AttemptJournal(folder / "a.journal", self.metrics)
        self.coordinator: Coordinator = coordinator()
        self.recovery = Recovery(self.journal, self.coordinator, self.metrics)
        self.recovery.recall(0.0)

    def master_with_a_container(self) -> Am:
        master = Am(self.coordinator)
        master.attempt.on_registered(REGISTERED, 0.0)
        granted = next(iter(granted_rows(master.asks(row())).values()))
        master.gets(container(5, 1, granted))
        return master

    def reports(self, now_s: float, *events: ContainerEvent) -> int:
        """Handle a report of the container's node; returns the number up to which its events are acknowledged."""
        ack = self.coordinator.reports.report(node_id(1), report(1, events=list(events)), now_s)
        self.recovery.write_due(now_s)
        return ack.events_to

    def dies(self) -> None:
        self.journal._file.close()

    @property
    def restored(self) -> float | None:
        return self.metrics.registry.get_sample_value("quicksilver_proxy_taken_over_attempts")


def test_the_next_process_continues_with_the_containers_of_the_one_before(tmp_path: Path) -> None:
    first = Process(tmp_path)
    first.master_with_a_container()
    first.recovery.round(1.0)
    first.dies()
    second = Process(tmp_path)
    assert second.restored == 1 and [live.id for live in second.coordinator.attempts[ATTEMPT].live] == [cid(5)]
    second.recovery.close()


def test_starts_and_ends_are_acknowledged_once_they_are_journaled(tmp_path: Path) -> None:
    first = Process(tmp_path)
    first.master_with_a_container()
    first.recovery.write_all()
    started, over = event(5, EventKind.STARTED, 1), event(5, EventKind.ENDED, 2, ran_s=3.0)
    assert first.reports(1.0, started) == 0
    assert first.reports(1.9, started, over) == 0
    first.dies()  # so the sidecar still has both

    second = Process(tmp_path)
    (live,) = second.coordinator.attempts[ATTEMPT].live
    assert not live.is_started
    assert second.reports(5.0, started) == 0
    assert second.reports(6.0, started) == 1  # no exchange journaled it meanwhile
    second.dies()

    third = Process(tmp_path)
    (live,) = third.coordinator.attempts[ATTEMPT].live
    assert (live.is_started, live.started_s) == (True, 5.0)
    assert third.reports(7.0, started, over) == 0
    third.recovery.round(7.5)
    assert third.reports(7.6, started, over) == 2
    assert (live.started_s, live.worked_s) == (5.0, 3.0)
    third.recovery.close()


def test_an_end_that_changes_the_next_answer_is_journaled_and_acknowledged_at_once(tmp_path: Path) -> None:
    first = Process(tmp_path)
    first.master_with_a_container()
    first.recovery.write_all()
    held = event(5, EventKind.HELD, 1)
    assert first.reports(1.0, held) == 0
    first.reports(1.1, held, event(5, EventKind.SHED, 2, "room"))
    first.dies()
    second = Process(tmp_path)
    attempt = second.coordinator.attempts[ATTEMPT]
    assert not len(attempt.live) and attempt.containers.ended(cid(5))
    second.recovery.close()


@pytest.mark.parametrize(
    "note",
    [
        {"registered": packed(REGISTERED), "live": {"container_1_0002_01_000001": {"node": "n"}}},
        {"registered": packed(b"no message")},
    ],
)
def test_an_attempt_that_cannot_be_restored_is_logged_and_left_out(tmp_path: Path, note: Note) -> None:
    first = Process(tmp_path)
    first.master_with_a_container()
    first.recovery.write_all()
    first.journal.write(OTHER, note)
    first.dies()
    with capture_logs() as logs:
        second = Process(tmp_path)
    assert list(second.coordinator.attempts) == [ATTEMPT] and second.restored == 1
    assert [line["attempt"] for line in logs if line["event"] == "an application cannot be restored"] == [OTHER]
    second.recovery.close()


def test_an_attempt_over_which_the_proxy_failed_registers_anew_with_its_containers(tmp_path: Path) -> None:
    process = Process(tmp_path)
    broken = process.master_with_a_container().attempt
    with capture_logs() as logs:
        process.recovery.restore(ATTEMPT)
        process.recovery.restore(OTHER)
    renewed = process.coordinator.attempts[ATTEMPT]
    assert renewed is not broken and [live.id for live in renewed.live] == [cid(5)]
    assert [line["attempt"] for line in logs if "has to register anew" in line["event"]] == [ATTEMPT]
    process.recovery.close()
