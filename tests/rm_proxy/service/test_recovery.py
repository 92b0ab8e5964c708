"""What a proxy journals, and what the next one restores of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hadoop_rpc.protos import yarn_pb2 as y
from rm_proxy.attempt.snapshot import Note, packed
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.attempt_journal import AttemptJournal
from rm_proxy.service.recovery import Recovery
from tests.rm_proxy.yarn_messages import ATTEMPT, Am, cid, container, coordinator, granted_rows, row

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
