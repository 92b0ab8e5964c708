"""Token storage files: tests/data/hadoop/tokens_*.bin were written by Hadoop 3.4.2."""

from __future__ import annotations

import pytest

from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.token_storage import AM_RM_TOKEN, read_tokens, write_tokens
from tests.paths import DATA

EXPECTED = {
    "am": TokenProto(identifier=b"\1\2\3", password=b"\4\5", kind=AM_RM_TOKEN, service="127.0.0.1:8030"),
    "hdfs": TokenProto(identifier=b"x" * 300, password=b"pw", kind="HDFS_DELEGATION_TOKEN", service="10.0.0.1:8020"),
}


@pytest.mark.parametrize("version", ["writable", "protobuf"])
def test_both_versions_of_hadoop_are_read(version: str) -> None:
    assert read_tokens((DATA / "hadoop" / f"tokens_{version}.bin").read_bytes()) == EXPECTED


def test_what_is_written_is_hadoops_own_form() -> None:
    theirs = (DATA / "hadoop" / "tokens_writable.bin").read_bytes()
    ours = write_tokens({"hdfs": EXPECTED["hdfs"], "am": EXPECTED["am"]})
    assert theirs.startswith(ours[:-1])  # then their one secret key in place of our none


@pytest.mark.parametrize("size", [0, 1, 127, 128, 255, 256, 70_000])
def test_tokens_of_any_length_come_back(size: int) -> None:
    tokens = {"a" * size: TokenProto(identifier=b"i" * size, password=b"", kind="K", service="")}
    assert read_tokens(write_tokens(tokens)) == tokens


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "begins with"),
        (b"PK\3\4....", "begins with"),
        (b"HDTS\7", "version 7"),
        (write_tokens(EXPECTED)[:50], "cut off"),
        (b"HDTS\1\x05abc", "cannot be read"),
        (b"HDTS\1\x03abc", "cannot be read"),
    ],
)
def test_something_else_is_refused_with_a_reason(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_tokens(data)
