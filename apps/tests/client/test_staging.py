"""Files of applications in shared folders, and the choice of the place."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from apps.tests.client.sites import application, site
from quicksilver_apps.client.errors import ClientError
from quicksilver_apps.client.files import Uploads, check_sources, described_files
from quicksilver_apps.client.hdfs.staging import FolderStaging, StagedFile, open_staging
from quicksilver_apps.client.login import Login


def test_a_folder_of_an_application(tmp_path: Path) -> None:
    staging = FolderStaging(tmp_path, "alice")
    folder = staging.folder_of("application_1_1")
    staged = staging.put(folder, "a.json", b"1234")
    path = tmp_path / "alice" / "applications" / "application_1_1" / "a.json"
    assert staged == StagedFile(f"file://{path}", 4, path.stat().st_mtime_ns // 1_000_000)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert staging.put(folder, "a.json", b"12345").size == 5, "the newest counts"
    assert [each.name for each in path.parent.iterdir()] == ["a.json"]
    staging.remove(folder)
    staging.remove(folder)
    assert not path.parent.exists()


def test_what_is_shared_is_written_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        staged = set(pool.map(lambda _: FolderStaging(tmp_path, "alice").put_once("app.zip", b"same"), range(40)))
    assert len(staged) == 1, "all know the same time of the file"
    assert [each.name for each in (tmp_path / "alice" / "archives").iterdir()] == ["app.zip"]


def test_two_users_share_a_folder(tmp_path: Path) -> None:
    """The first one's folders were closed to the second one."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    stagings = [FolderStaging(tmp_path / "shared", user) for user in ("alice", "bob")]
    uris = [staging.put_once("app.zip", b"same").uri for staging in stagings]
    stagings[1].put(stagings[1].folder_of("application_1_2"), "a.json", b"{}")
    assert uris == [f"file://{tmp_path}/shared/{user}/archives/app.zip" for user in ("alice", "bob")]
    assert (tmp_path / "shared" / "bob" / "applications" / "application_1_2" / "a.json").read_bytes() == b"{}"


def as_user(uid: int, work: Callable[[], object]) -> str:
    """Return what some work comes to with the rights of a user, or what it raises."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            answer = str(work())
        except Exception as error:  # noqa: BLE001 - the parent asserts it
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        answer = file.read()
    os.waitpid(child, 0)
    return answer


@pytest.mark.skipif(os.geteuid() != 0, reason="takes two users, and so root")
def test_a_program_that_another_user_planted_does_not_run() -> None:
    """What mallory put where alice's folder would be is refused; others of the shared folder are served."""
    with TemporaryDirectory(prefix="qs-staging-") as name:
        shared = Path(name)
        shared.chmod(0o1777)

        def staged(user: str, content: bytes) -> int:
            return FolderStaging(shared, user).put_once("app.zip", content).size

        assert as_user(1001, lambda: staged("alice", b"evil")) == "4"
        why = as_user(1002, lambda: staged("alice", b"whole"))
        assert why.startswith("ClientError: ") and "belongs to the user with the number 1001" in why
        assert as_user(1002, lambda: staged("bob", b"whole")) == "5"


@pytest.mark.parametrize("kind", ["other bytes", "writable", "link"])
def test_an_archive_that_is_not_ours_is_replaced(tmp_path: Path, kind: str) -> None:
    staging = FolderStaging(tmp_path, "alice")
    planted = tmp_path / "alice" / "archives" / "app.zip"
    staging.put_once("other.zip", b"x")
    if kind == "link":
        (tmp_path / "same").write_bytes(b"same")
        planted.symlink_to(tmp_path / "same")
    else:
        planted.write_bytes(b"evil" if kind == "other bytes" else b"same")
        planted.chmod(0o666 if kind == "writable" else 0o644)
    staging.put_once("app.zip", b"same")
    assert (planted.is_symlink(), planted.read_bytes(), planted.stat().st_mode & 0o777) == (False, b"same", 0o644)


def test_an_archive_of_another_user_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = FolderStaging(tmp_path, "alice")
    staging.put_once("app.zip", b"same")
    path = tmp_path / "alice" / "archives" / "app.zip"
    before, other = path.stat().st_ino, max(1, os.geteuid()) + 1
    assert staging.put_once("app.zip", b"same") and path.stat().st_ino == before
    real = os.fstat

    def owned_by_another(number: int) -> os.stat_result:
        found = real(number)
        return os.stat_result((*found[:4], other, *found[5:10])) if found.st_ino == before else found

    monkeypatch.setattr(os, "fstat", owned_by_another)
    staging.put_once("app.zip", b"same")
    assert path.stat().st_ino != before


def test_a_folder_into_which_others_may_put_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(message: str) -> None:
        staging = FolderStaging(tmp_path / "shared", "alice")
        with pytest.raises(ClientError, match=message):
            staging.put_once("app.zip", b"same")
        with pytest.raises(ClientError, match=message):
            staging.put(staging.folder_of("application_1_1"), "a", b"")

    shared, own = tmp_path / "shared", tmp_path / "shared" / "alice"
    own.mkdir(parents=True, mode=0o700)
    shared.chmod(0o777)
    refused(r"shared: .*no sticky bit.*`chmod 1777 .*/shared`")
    shared.chmod(0o1777)
    assert FolderStaging(shared, "alice").put_once("app.zip", b"same").size == 4
    own.chmod(0o777)
    refused(r"shared/alice: may be written by others")
    own.chmod(0o700)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        refused(r"shared/alice: belongs to the user with the number \d+: .* would run as you")
    others = os.stat_result((*shared.stat()[:4], max(1, os.geteuid()) + 1, *shared.stat()[5:10]))
    status = Path.stat
    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", lambda path, **more: others if path == shared else status(path, **more))
        refused(r"shared: belongs to the user with the number \d+, who can replace .*have root own it")
    own.rename(tmp_path / "away")
    own.symlink_to(tmp_path / "away")
    refused(r"shared/alice: is no folder")


@pytest.mark.parametrize("user", ["", "..", ".", "a/b", "../../x", "a\nb", "-x", "x" * 101])
def test_names_that_are_no_users(tmp_path: Path, user: str) -> None:
    with pytest.raises(ClientError, match="is no name of a user"):
        FolderStaging(tmp_path, user)


@pytest.mark.parametrize("call", [os.open, os.mkdir, os.stat])
def test_a_right_that_is_missing_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any]
) -> None:
    staging = FolderStaging(tmp_path / "shared", "alice")

    def denied(path: object, *arguments: Any, **more: Any) -> Any:
        if str(path).startswith(str(tmp_path)):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return call(path, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, call.__name__, denied)
        with pytest.raises(ClientError, match=r"cannot be written: Permission denied; .*install -d -m 1777"):
            staging.put_once("app.zip", b"same")


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ClientError, match=r"cannot be written.*--staging"):
        FolderStaging(tmp_path / "file", "alice").put_once("a", b"")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("", r"fs.defaultFS: files cannot be staged in file:.*--staging file:///shared/staging"),
        ("s3a://bucket/x", r"--staging: 's3a://bucket/x' is no place for files"),
        ("file://host/x", r"is no place for files"),
        ("/plain/path", r"is no place for files"),
        ("hdfs:///x", r"names no NameNode"),
    ],
)
def test_places_that_do_not_do(tmp_path: Path, where: str, message: str) -> None:
    with pytest.raises(ClientError, match=message):
        open_staging(site(tmp_path, {"fs.defaultFS": "file:///"}, {}), Login("alice"), where)


def test_local_files_are_uploaded_and_shared_ones_looked_up(tmp_path: Path) -> None:
    folder = tmp_path / "described"
    folder.mkdir()
    (folder / "a.txt").write_text("own")
    (tmp_path / "b.txt").write_text("shared")
    app = application(
        files=[{"source": "a.txt"}, {"source": f"file://{tmp_path}/b.txt", "name": "c", "kind": "archive"}]
    )
    staging = FolderStaging(tmp_path / "staging", "alice")
    where = site(tmp_path, {}, {})
    found = Uploads(where, Login("alice"), staging).stage(app, folder, staging.folder_of("application_1_1"))
    assert [(each.service, each.name, each.kind, each.staged.size) for each in found] == [
        ("", "a.txt", "file", 3),
        ("", "c", "archive", 6),
    ]
    assert (tmp_path / "staging/alice/applications/application_1_1/files.a.txt").read_text() == "own"
    assert found[1].staged.uri == f"file://{tmp_path}/b.txt"


def of_service(**file: str) -> dict[str, object]:
    return {"name": "main", "core": 1, "command": "true", "resources": {"memory_mb": 1}, "files": [file]}


def test_names_that_are_taken(tmp_path: Path) -> None:
    app = application(files=[{"source": "x/a"}], services=[of_service(source="y/a")])
    with pytest.raises(ClientError, match=r"files of service main: 'a' cannot be the name of y/a.*another `name`"):
        list(described_files(app))
    for name in ("application.json", "a/b"):
        with pytest.raises(ClientError, match=r"^files: .*cannot be the name"):
            list(described_files(application(files=[{"source": "x", "name": name}])))
    two = application(services=[of_service(source="a"), {**of_service(source="a"), "name": "other"}])
    assert [each.service for each in described_files(two)] == ["main", "other"]


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=r"files: .*gone is not there; correct the path"):
        check_sources(application(files=[{"source": "gone"}]), tmp_path)
    with pytest.raises(ClientError, match=r"is a folder; make an archive of it"):
        check_sources(application(files=[{"source": ".", "name": "x"}]), tmp_path)
    staging = FolderStaging(tmp_path, "a")
    with pytest.raises(ClientError, match=r"s3a://b/x is neither in HDFS nor here; copy it to HDFS"):
        Uploads(site(tmp_path, {}, {}), Login("a"), staging).stage(
            application(files=[{"source": "s3a://b/x"}]), tmp_path, staging.folder_of("application_1_1")
        )
