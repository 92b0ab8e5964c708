"""Hadoop's token storage format, version 0 (`Credentials.writeTokenStorageToStream`): what a launch context has."""

from __future__ import annotations

from collections.abc import Mapping

from hadoop_rpc.protos.rpc_pb2 import TokenProto

_MAGIC = b"HDTS"
_WRITABLE = b"\x00"


def credentials(tokens: Mapping[str, TokenProto]) -> bytes:
    """Return tokens, by their aliases, as bytes of the format; there are no other secrets in them."""
    parts = [_MAGIC, _WRITABLE, vint(len(tokens))]
    for alias, token in tokens.items():
        parts += [_text(alias), _bytes(token.identifier), _bytes(token.password), _text(token.kind), _text(token.service)]
    return b"".join([*parts, vint(0)])


def vint(value: int) -> bytes:
    """Return a number from 0 up as Hadoop's `WritableUtils.writeVInt` writes it."""
    if value <= 127:
        return bytes([value])
    body = value.to_bytes((value.bit_length() + 7) // 8)
    return bytes([256 - 112 - len(body)]) + body


def _text(text: str) -> bytes:
    return _bytes(text.encode())


def _bytes(data: bytes) -> bytes:
    return vint(len(data)) + data
