"""Records of submitted applications."""

from __future__ import annotations

from pathlib import Path

import pytest

from quicksilver_apps.client.errors import ClientError
from quicksilver_apps.client.records import HOME, ClientRecord, ClientRecords, checked_id

ID = "application_1700000000000_0001"


def record(**changes: object) -> ClientRecord:
    fields = {"application_id": ID, "key": "k", "name": "n", "submitted_s": 1.0, "rm": "rm:8032"}
    return ClientRecord.model_validate(fields | changes)


def test_a_record_is_private(tmp_path: Path) -> None:
    records = ClientRecords(tmp_path / "new" / "folder")
    records.save(record(staging="file:///x"))
    path = records.folder / f"{ID}.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert records.folder.stat().st_mode & 0o777 == 0o700
    assert records.find(ID) == record(staging="file:///x")
    records.save(record(containers={"container_1": "main[0]"}))
    assert records.required(ID).containers == {"container_1": "main[0]"}
    assert [each.name for each in records.folder.iterdir()] == [path.name]


def test_the_oldest_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME, str(tmp_path))
    records = ClientRecords()
    assert records.all() == []
    newer = record(application_id="application_1_0001", submitted_s=2.0)
    for each in (newer, record()):
        records.save(each)
    assert records.all() == [record(), newer]
    records.remove(ID)
    records.remove(ID)
    assert records.all() == [newer]


def test_what_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    records = ClientRecords(tmp_path)
    assert records.find(ID) is None
    with pytest.raises(ClientError, match=r"was not submitted from here.*copy the file from there"):
        records.required(ID)
    (tmp_path / f"{ID}.json").write_text("{}")
    with pytest.raises(ClientError, match=rf"{ID}\.json: is no record.*delete the file"):
        records.find(ID)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ClientError, match="cannot be written"):
        ClientRecords(blocked).save(record())


@pytest.mark.parametrize("text", ["", "application_1", "../application_1_1", "application_1_1/x", "job_1_1"])
def test_an_id_is_checked(text: str) -> None:
    with pytest.raises(ClientError, match="is no id of an application"):
        checked_id(text)
