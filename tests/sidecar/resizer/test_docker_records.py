"""The records of Docker containers' own limits, where a write of them is cut off."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.resizer.base import ResizeRefusedError
from sidecar.resizer.docker.engine import DockerLimits
from sidecar.resizer.docker.records import Record
from tests.small_disk import fill, small_disk


def begun(path: Path) -> Record:
    record = Record.open(path, make=True)
    assert record is not None
    record.container_id, record.url, record.limits = "container_1", "unix:///run/docker.sock", DockerLimits(1, 2, 3, 4)
    record.write()
    return record


def limits_in(path: Path) -> tuple[DockerLimits, bool]:
    record = Record.open(path)
    assert record is not None and record.adopted
    record.close()
    return record.limits, record.paused


def test_a_shorter_record_is_whole_before_the_file_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = begun(tmp_path / "a.json")

    def dies(descriptor: int, length: int) -> None:
        raise OSError(5, "the process ends here")

    monkeypatch.setattr(os, "ftruncate", dies)
    record.paused = True  # shorter than `false`
    with pytest.raises(ResizeRefusedError):
        record.write()
    record.close()
    assert limits_in(tmp_path / "a.json") == (DockerLimits(1, 2, 3, 4), True)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to mount")
def test_a_full_disk_takes_a_later_state(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        record = begun(disk / "a.json")
        fill(disk)
        record.paused = True
        record.write()
        record.close()
        assert limits_in(disk / "a.json") == (DockerLimits(1, 2, 3, 4), True)
