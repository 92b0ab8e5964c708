"""The master keys that NodeManagers had in a campaign, and the search for them in all that the campaign left.

A key is looked for as its bytes, in hexadecimal digits, and in base64: also within longer base64, where its first and
last digits depend on its neighbours.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from hadoop_rpc.connection import Call, ServerConnection
from hadoop_rpc.errors import HadoopRpcError
from hadoop_rpc.messages import parse_message
from hadoop_rpc.protos.yarn_server_pb2 import NodeHeartbeatRequestProto

_HEARTBEAT: Final = "nodeHeartbeat"
SHORTEST: Final = 8
"""Bytes of a key; shorter ones would be found by chance."""
_BLOCK_BYTES: Final = 1 << 22


class SeenMasterKeys:
    """Keys by their ids, read from the NodeManagers' heartbeats, which carry those that a node has now."""

    def __init__(self) -> None:
        self.keys: dict[bytes, int] = {}
        self.unread = 0
        """Connections that could not be read."""

    def reader(self) -> Callable[[bytes], None]:
        """Return what takes the bytes of one connection of a NodeManager."""
        connection: ServerConnection | None = ServerConnection()

        def read(data: bytes) -> None:
            nonlocal connection
            if connection is None:
                return
            try:
                for event in connection.receive_data(data):
                    if isinstance(event, Call) and event.method == _HEARTBEAT:
                        self._heartbeat(event.body)
            except HadoopRpcError:
                connection, self.unread = None, self.unread + 1

        return read

    def _heartbeat(self, body: bytes) -> None:
        beat = parse_message(NodeHeartbeatRequestProto.FromString, body, "heartbeat")
        for key in (beat.last_known_container_token_master_key, beat.last_known_nm_token_master_key):
            if len(key.bytes) >= SHORTEST:
                self.keys[key.bytes] = key.key_id


def spellings(key: bytes) -> dict[bytes, str]:
    """Return all ways in which a key may be written down, with their names."""
    spelled = {key: "bytes", key.hex().encode(): "hex", key.hex().upper().encode(): "hex"}
    for before in range(3):
        digits = base64.b64encode(bytes(before) + key + bytes(3))
        own = digits[-(-8 * before // 6) : 8 * (before + len(key)) // 6]
        spelled |= {own: "base64", own.translate(bytes.maketrans(b"+/", b"-_")): "base64"}
    return spelled


def search(folders: Iterable[Path], keys: Mapping[bytes, int], without: Iterable[Path] = ()) -> Iterator[str]:
    """Yield where in the files of folders keys stand; `without`: folders that are left out."""
    finder, left_out = _Finder(_patterns(keys)), {path.resolve() for path in without}
    for folder in folders:
        if folder.is_file():
            yield from finder.in_file(folder)
        for root, names, files in os.walk(folder):
            names[:] = [name for name in names if (Path(root) / name).resolve() not in left_out]
            for name in files:
                path = Path(root) / name
                if path.is_file() and not path.is_symlink():
                    yield from finder.in_file(path)


class _Finder:
    """Finds many patterns in one pass: those that may begin at a byte are known by its next four."""

    def __init__(self, patterns: Mapping[bytes, str]) -> None:
        self._by_begin: dict[int, list[tuple[bytes, str]]] = {}
        self._pairs = np.zeros(1 << 16, dtype=bool)
        self._overlap = max(map(len, patterns), default=0)
        for pattern, spelling in patterns.items():
            self._by_begin.setdefault(int.from_bytes(pattern[:4]), []).append((pattern, spelling))
            self._pairs[int.from_bytes(pattern[:2])] = True
        self._begins = np.array(sorted(self._by_begin), dtype=np.uint32)

    def in_file(self, path: Path) -> Iterator[str]:
        """Yield the first place of each pattern."""
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return  # a daemon removed it meanwhile
        places: dict[str, int] = {}
        with file:
            at, data = 0, file.read(_BLOCK_BYTES)
            while data:
                more = file.read(_BLOCK_BYTES)
                for offset, spelling in self._in_block(data + more[: self._overlap]):
                    places.setdefault(spelling, at + offset)
                at, data = at + len(data), more
        for spelling, place in places.items():
            yield f"{path}: {spelling} at byte {place}"

    def _in_block(self, data: bytes) -> Iterator[tuple[int, str]]:
        digits = np.frombuffer(data + bytes(4), dtype=np.uint8).astype(np.uint16)
        pairs = (digits[:-1] << 8) | digits[1:]
        begins = np.flatnonzero(self._pairs[pairs[:-3]])
        quads = (pairs[begins].astype(np.uint32) << 16) | pairs[begins + 2]
        likely = np.isin(quads, self._begins)
        for offset, quad in zip(begins[likely].tolist(), quads[likely].tolist(), strict=True):
            for pattern, spelling in self._by_begin[quad]:
                if data.startswith(pattern, offset):
                    yield offset, spelling


def search_environments(processes: Iterable[psutil.Process], keys: Mapping[bytes, int]) -> Iterator[str]:
    """Yield which processes have keys in their environment or command line."""
    patterns = _patterns(keys)
    for process in processes:
        try:
            texts = {"environment": process.environ(), "command line": process.cmdline()}
        except psutil.NoSuchProcess:
            continue
        for where, text in texts.items():
            data = repr(text).encode(errors="surrogateescape")
            yield from (
                f"{where} of process {process.pid}: {spelling}"
                for pattern, spelling in patterns.items()
                if pattern in data
            )


def _patterns(keys: Mapping[bytes, int]) -> dict[bytes, str]:
    return {
        pattern: f"master key {key_id} as {how}"
        for key, key_id in keys.items()
        for pattern, how in spellings(key).items()
    }
