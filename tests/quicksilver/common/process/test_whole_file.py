"""Files that are replaced whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from quicksilver.common.process.whole_file import write_whole
from tests.small_disk import fill, small_disk


def test_a_file_is_replaced_with_its_rights(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, b"one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    write_whole(path, b"two", mode=0o666, like=path)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"two", 0o640)


def test_one_that_cannot_be_replaced_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(path, b"one")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to mount")
def test_a_full_disk_leaves_the_file_before(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        write_whole(disk / "a", b"one")
        fill(disk)
        with pytest.raises(OSError, match="No space"):
            write_whole(disk / "a", b"two")
        assert (disk / "a").read_bytes() == b"one"
        assert sorted(entry.name for entry in disk.iterdir()) == ["a", "filler"]
