"""WebHDFS as a NameNode and a DataNode speak it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from apps.tests.client.sites import Answer, server, site
from quicksilver_apps.client.errors import ClientError
from quicksilver_apps.client.hdfs.staging import HdfsStaging
from quicksilver_apps.client.hdfs.webhdfs import FileStatus, HdfsError, WebHdfs
from quicksilver_apps.client.login import Login


def exception(status: int, name: str, message: str = "why") -> Answer:
    return status, {}, json.dumps({"RemoteException": {"exception": name, "message": f"{message}\n\tat X"}}).encode()


class NameNode:
    """Keeps files in memory; with `standby` it refuses everything."""

    def __init__(self, standby: bool = False) -> None:
        self.files: dict[str, bytes] = {}
        self.folders = {"/": ("hdfs", "755"), "/user/alice": ("alice", "700"), "/base": ("hdfs", "1777")}
        self.owners: dict[str, tuple[str, str]] = {}
        """Owner and mode of files that are not alice's with 644."""
        self.calls: list[str] = []
        self.standby = standby

    def answer(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        parts, query = urlsplit(target), parse_qs(urlsplit(target).query)
        path = parts.path.removeprefix("/webhdfs/v1")
        if parts.path.startswith("/data"):
            path = parts.path.removeprefix("/data")
            if method == "GET":
                return 200, {}, self.files[path]
            self.files[path] = body
            self.owners.pop(path, None)
            return 201, {}, b""
        op = query["op"][0]
        self.calls.append(op)
        if self.standby:
            return exception(403, "StandbyException")
        assert query["user.name"] == ["alice"]
        if op in ("CREATE", "OPEN"):
            return 200, {}, json.dumps({"Location": f"http://{headers['Host']}/data{path}"}).encode()
        if op == "RENAME":
            free = query["destination"][0] not in self.files
            if free and path in self.files:
                self.files[query["destination"][0]] = self.files.pop(path)
            return 200, {}, json.dumps({"boolean": free}).encode()
        if op == "GETFILESTATUS":
            if path not in self.files and path not in self.folders:
                return exception(404, "FileNotFoundException")
            kind = "DIRECTORY" if path in self.folders else "FILE"
            owner, mode = self.folders.get(path) or self.owners.get(path) or ("alice", "644")
            status = {"length": len(self.files.get(path, b"")), "modificationTime": 5, "type": kind}
            status |= {"owner": owner, "permission": mode}
            return 200, {}, json.dumps({"FileStatus": status}).encode()
        if op == "MKDIRS":
            self.folders.setdefault(path, ("alice", query["permission"][0]))
        if op == "DELETE":
            self.files = {name: data for name, data in self.files.items() if not f"{name}/".startswith(f"{path}/")}
            self.owners = {name: owner for name, owner in self.owners.items() if name in self.files}
        if op == "GETHOMEDIRECTORY":
            return 200, {}, b'{"Path": "/user/alice"}'
        return 200, {}, b'{"boolean": true}'


def hdfs(folder: Path, *urls: str) -> WebHdfs:
    names = [chr(ord("a") + number) for number in range(len(urls))]
    addresses = {
        f"dfs.namenode.http-address.ns.{n}": u.removeprefix("http://") for n, u in zip(names, urls, strict=True)
    }
    where = site(folder, {"fs.defaultFS": "hdfs://ns"}, {}, {"dfs.ha.namenodes.ns": ",".join(names), **addresses})
    return WebHdfs(where, Login("alice"), "ns")


def test_files_are_written_and_removed(tmp_path: Path) -> None:
    node = NameNode()
    with server(node.answer) as url:
        staging = HdfsStaging(hdfs(tmp_path, url))
        folder = staging.folder_of("application_1_1")
        assert folder == "hdfs://ns/user/alice/.quicksilver/applications/application_1_1"
        (tmp_path / "big file").write_bytes(b"x" * 300_000)
        staged = staging.put(folder, "big file", tmp_path / "big file")
        assert (staged.uri, staged.size, staged.timestamp_ms) == (f"{folder}/big file", 300_000, 5)
        staging.put(folder, "other", b"1")
        assert node.calls.count("MKDIRS") == 2, "the root and the application's"
        staging.remove(folder)
        assert node.files == {}
        staging.close()


def test_what_is_shared_is_written_once(tmp_path: Path) -> None:
    node = NameNode()
    with server(node.answer) as url:
        staging = HdfsStaging(hdfs(tmp_path, url), "/base")
        first = staging.put_once("app.zip", b"same")
        assert staging.put_once("app.zip", b"same") == first
        assert node.calls.count("CREATE") == 1
        assert list(node.files) == ["/base/alice/archives/app.zip"]
        staging.close()


@pytest.mark.parametrize(
    ("content", "owner"),
    [
        (b"evil", ("alice", "644")),
        (b"same", ("mallory", "644")),
        (b"same", ("alice", "666")),
        (b"longer", ("x", "644")),
    ],
)
def test_an_archive_that_is_not_ours_is_replaced(tmp_path: Path, content: bytes, owner: tuple[str, str]) -> None:
    node, path = NameNode(), "/base/alice/archives/app.zip"
    node.files[path], node.owners[path] = content, owner
    with server(node.answer) as url:
        staging = HdfsStaging(hdfs(tmp_path, url), "/base")
        assert staging.put_once("app.zip", b"same").size == 4
        staging.close()
    assert (node.files, node.owners) == ({path: b"same"}, {})


@pytest.mark.parametrize(
    ("folder", "status", "message"),
    [
        (
            "/base/alice",
            ("mallory", "700"),
            r"hdfs://ns/base/alice: belongs to mallory: .* would run as you.*--staging",
        ),
        ("/base/alice", ("alice", "777"), r"hdfs://ns/base/alice: may be written by others"),
        ("/base", ("hdfs", "777"), r"hdfs://ns/base: .*no sticky bit.*`hdfs dfs -chmod 1777 /base`"),
        ("/base", ("hdfs", "x"), r"no sticky bit"),
        ("/base", ("mallory", "1777"), r"hdfs://ns/base: belongs to mallory, who can replace .*superuser.*--staging"),
    ],
)
def test_a_folder_into_which_others_may_put_programs(
    tmp_path: Path, folder: str, status: tuple[str, str], message: str
) -> None:
    node = NameNode()
    node.folders[folder] = status
    with server(node.answer) as url:
        for _ in range(2):
            staging = HdfsStaging(hdfs(tmp_path, url), "/base")
            with pytest.raises(ClientError, match=message):
                staging.put_once("app.zip", b"same")
            with pytest.raises(ClientError, match=message):
                staging.put(staging.folder_of("application_1_1"), "a", b"")
            staging.close()
    assert node.files == {}


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"{}", b'{"FileStatus": 5}', b'{"Path": 7}', b"null"])
def test_answers_that_are_not_understood(tmp_path: Path, answer: bytes) -> None:
    with server(lambda *_: (200, {}, answer)) as url:
        client = hdfs(tmp_path, url)
        for call in (
            client.home,
            lambda: client.status("/a"),
            lambda: client.read("/a"),
            lambda: client.put("/a", b""),
        ):
            with pytest.raises(HdfsError, match="not understood"):
                call()
        client.close()
    with server(lambda *_: (403, {}, answer)) as url:
        client = hdfs(tmp_path, url)
        with pytest.raises(HdfsError, match="answered 403"):
            client.home()
        client.close()


def test_the_active_namenode_is_found(tmp_path: Path) -> None:
    standby, active = NameNode(standby=True), NameNode()
    with server(standby.answer) as first, server(active.answer) as second:
        client = hdfs(tmp_path, "http://127.0.0.1:1", first, second)
        assert client.put("/a", b"123") == FileStatus(3, 5, False, "alice", 0o644)
        assert client.status("/b") is None
        assert standby.calls == ["CREATE"], "it is asked first no more"
        client.close()


def test_errors_are_one_line(tmp_path: Path) -> None:
    def refuse(method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        if "MKDIRS" in target:
            return 401, {}, b"<html>"
        return exception(403, "AccessControlException", "Permission denied: user=alice")

    with server(refuse) as url:
        client = hdfs(tmp_path, url)
        with pytest.raises(HdfsError, match=r"^hdfs://ns/a: AccessControlException: Permission denied: user=alice$"):
            client.put("/a", b"")
        with pytest.raises(HdfsError, match=r"answered 401 .*; get tickets with `kinit`"):
            client.make_folder("/a")
        client.close()
    with pytest.raises(HdfsError, match=r"HDFS does not answer.*--staging"):
        hdfs(tmp_path, "http://127.0.0.1:1").home()
