"""WebHDFS as a NameNode and a DataNode speak it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from quicksilver.applications.client.login import Login
from quicksilver.applications.client.staging import HdfsStaging
from quicksilver.applications.client.webhdfs import FileStatus, HdfsError, WebHdfs
from tests.quicksilver.applications.client.sites import Answer, server, site


def exception(status: int, name: str, message: str = "why") -> Answer:
    return status, {}, json.dumps({"RemoteException": {"exception": name, "message": f"{message}\n\tat X"}}).encode()


class NameNode:
    """Keeps files in memory; with `standby` it refuses everything."""

    def __init__(self, standby: bool = False) -> None:
        self.files: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.standby = standby

    def answer(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        parts, query = urlsplit(target), parse_qs(urlsplit(target).query)
        path = parts.path.removeprefix("/webhdfs/v1")
        if parts.path.startswith("/data"):
            self.files[parts.path.removeprefix("/data")] = body
            return 201, {}, b""
        op = query["op"][0]
        self.calls.append(op)
        if self.standby:
            return exception(403, "StandbyException")
        assert query["user.name"] == ["alice"]
        if op == "CREATE":
            return 200, {}, json.dumps({"Location": f"http://{headers['Host']}/data{path}"}).encode()
        if op == "RENAME":
            free = query["destination"][0] not in self.files
            if free:
                self.files[query["destination"][0]] = self.files.pop(path)
            return 200, {}, json.dumps({"boolean": free}).encode()
        if op == "GETFILESTATUS":
            if path not in self.files:
                return exception(404, "FileNotFoundException")
            status = {"length": len(self.files[path]), "modificationTime": 5, "type": "FILE"}
            return 200, {}, json.dumps({"FileStatus": status}).encode()
        if op == "DELETE":
            self.files = {name: data for name, data in self.files.items() if not name.startswith(path)}
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
        assert node.calls.count("MKDIRS") == 1
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
        assert list(node.files) == ["/base/archives/app.zip"]
        staging.close()


def test_the_active_namenode_is_found(tmp_path: Path) -> None:
    standby, active = NameNode(standby=True), NameNode()
    with server(standby.answer) as first, server(active.answer) as second:
        client = hdfs(tmp_path, "http://127.0.0.1:1", first, second)
        assert client.put("/a", b"123") == FileStatus(3, 5)
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
