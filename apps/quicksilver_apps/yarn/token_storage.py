"""Files in which Hadoop stores tokens (HADOOP_TOKEN_FILE_LOCATION), in both of their forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from google.protobuf.message import DecodeError

from hadoop_rpc.errors import RemoteProtocolError
from hadoop_rpc.frames import split_delimited
from hadoop_rpc.protos.rpc_pb2 import CredentialsProto, TokenProto

__all__ = ["AM_RM_TOKEN", "read_tokens", "token_fields", "write_tokens"]

AM_RM_TOKEN: Final = "YARN_AM_RM_TOKEN"
"""The kind of the token that an application master logs in with."""
_MAGIC: Final = b"HDTS"
_WRITABLE, _PROTOBUF = 0, 1


def read_tokens(data: bytes) -> dict[str, TokenProto]:
    """Return the tokens of a token storage file by their aliases; secret keys are left out.

    Raises ValueError when `data` is no such file, or is cut off.
    """
    if data[:4] != _MAGIC or len(data) < 5:
        raise ValueError(f"a token file begins with {_MAGIC!r} and a version, this one with {data[:5]!r}")
    if data[4] == _PROTOBUF:
        try:
            stored = CredentialsProto.FromString(split_delimited(data, 5, "tokens")[0])
        except (DecodeError, RemoteProtocolError) as error:
            raise ValueError(f"a token file of version 1 cannot be read: {error}") from error
        return {each.alias: each.token for each in stored.tokens}
    if data[4] != _WRITABLE:
        raise ValueError(f"a token file of version {data[4]} is not known, only 0 and 1 are")
    tokens: dict[str, TokenProto] = {}
    count, at = _vint(data, 5)
    for _ in range(count):
        alias, at = _bytes(data, at)
        tokens[alias.decode()], at = token_fields(data, at)
    return tokens


def write_tokens(tokens: Mapping[str, TokenProto]) -> bytes:
    """Return a token storage file of version 0, as `ContainerLaunchContext.tokens` has it."""
    parts = [_MAGIC, bytes((_WRITABLE,)), _vint_of(len(tokens))]
    for alias, token in tokens.items():
        for field in (alias.encode(), token.identifier, token.password, token.kind.encode(), token.service.encode()):
            parts += (_vint_of(len(field)), field)
    parts.append(_vint_of(0))  # secret keys
    return b"".join(parts)


def token_fields(data: bytes, at: int = 0) -> tuple[TokenProto, int]:
    """Return a token as `Token.write` writes it, and where the next field begins. Raises ValueError when cut off."""
    identifier, at = _bytes(data, at)
    password, at = _bytes(data, at)
    kind, at = _bytes(data, at)
    service, at = _bytes(data, at)
    return TokenProto(identifier=identifier, password=password, kind=kind.decode(), service=service.decode()), at


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _vint(data, at)
    if length < 0 or at + length > len(data):
        raise ValueError("a token is cut off")
    return data[at : at + length], at + length


def _vint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number as Hadoop's WritableUtils.writeVInt writes those from 0 up, and where the next field begins."""
    first = int.from_bytes(data[at : at + 1], signed=True)
    if first >= -112:
        return first, at + 1
    end = at + 1 + (-112 - first)
    return int.from_bytes(data[at + 1 : end]), end


def _vint_of(value: int) -> bytes:
    if value <= 127:
        return bytes((value,))
    size = (value.bit_length() + 7) // 8
    return (-112 - size).to_bytes(1, signed=True) + value.to_bytes(size)
