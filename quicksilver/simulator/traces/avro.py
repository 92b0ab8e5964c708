"""Avro's binary form of values whose schema is known, as far as job history needs it: decoders made from the schema."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

_VARINT: Final = 10
"""Bytes of a number, at most."""
_DEEP: Final = 30


class Octets(Protocol):
    """What can be indexed as bytes: bytes, a mapped file."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: slice, /) -> bytes: ...


class Cursor:
    """Bytes, and how far they were read. Every reading raises ValueError when they do not fit."""

    def __init__(self, octets: Octets, at: int = 0) -> None:
        self._octets = octets
        self.at = at

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        end = self.at + count
        if count < 0 or end > len(self._octets):
            raise ValueError("ends within a value")
        found = self._octets[self.at : end]
        self.at = end
        return found

    def number(self) -> int:
        """Return an int, long or index: zigzag, seven bits a byte, the lowest first."""
        octets = self._octets[self.at : self.at + _VARINT]
        value = 0
        for place, octet in enumerate(octets):
            value |= (octet & 0x7F) << 7 * place
            if octet < 0x80:
                self.at += place + 1
                return (value >> 1) ^ -(value & 1)
        raise ValueError("ends within a number" if len(octets) < _VARINT else "a number of more than ten bytes")


Decoder = Callable[[Cursor], Any]


def _flag(cursor: Cursor) -> bool:
    return cursor.take(1) != b"\0"


def _octets(cursor: Cursor) -> bytes:
    return cursor.take(cursor.number())


def _text(cursor: Cursor) -> str:
    return _octets(cursor).decode()


_PLAIN: Final[dict[str, Decoder]] = {
    "null": lambda _: None,
    "boolean": _flag,
    "int": Cursor.number,
    "long": Cursor.number,
    "float": lambda cursor: struct.unpack("<f", cursor.take(4))[0],
    "double": lambda cursor: struct.unpack("<d", cursor.take(8))[0],
    "bytes": _octets,
    "string": _text,
}


def decoder(schema: Any) -> Decoder:
    """Return what reads a value of that schema (JSON's value); unions give the value alone.

    Raises ValueError for a schema that is none.
    """
    try:
        return _decoder(schema, "", {}, 0)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no schema: {error!r}") from error


def _decoder(schema: Any, space: str, named: dict[str, Decoder], depth: int) -> Decoder:
    if depth > _DEEP:
        raise ValueError("no schema: too deep")
    if isinstance(schema, str):
        return _PLAIN[schema] if schema in _PLAIN else named[_full(schema, space)]
    if isinstance(schema, list):
        return _union([_decoder(one, space, named, depth + 1) for one in schema])
    kind = schema["type"]
    if kind == "array":
        return _array(_decoder(schema["items"], space, named, depth + 1))
    if kind == "map":
        return _map(_decoder(schema["values"], space, named, depth + 1))
    if kind not in ("record", "enum", "fixed"):
        return _decoder(kind, space, named, depth + 1)
    return _of_name(schema, kind, space, named, depth)


def _of_name(schema: Mapping[str, Any], kind: str, space: str, named: dict[str, Decoder], depth: int) -> Decoder:
    name = _full(schema["name"], schema.get("namespace", space))
    inner = name.rpartition(".")[0]
    if kind == "enum":
        named[name] = _enum(tuple(schema["symbols"]))
    elif kind == "fixed":
        size = int(schema["size"])
        named[name] = lambda cursor: cursor.take(size)
    else:
        parts: list[tuple[str, Decoder]] = []
        named[name] = _record(parts)
        parts += [(field["name"], _decoder(field["type"], inner, named, depth + 1)) for field in schema["fields"]]
    return named[name]


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _record(parts: list[tuple[str, Decoder]]) -> Decoder:
    return lambda cursor: {name: read(cursor) for name, read in parts}


def _enum(symbols: tuple[str, ...]) -> Decoder:
    def read(cursor: Cursor) -> str:
        index = cursor.number()
        if not 0 <= index < len(symbols):
            raise ValueError(f"symbol {index} of {len(symbols)}")
        return symbols[index]

    return read


def _union(branches: list[Decoder]) -> Decoder:
    def read(cursor: Cursor) -> Any:
        index = cursor.number()
        if not 0 <= index < len(branches):
            raise ValueError(f"branch {index} of {len(branches)}")
        return branches[index](cursor)

    return read


def _blocks(cursor: Cursor) -> int:
    """Return how many values come next; 0: no more."""
    count = cursor.number()
    if count < 0:
        count = -count
        cursor.number()  # bytes of the block, which we do not skip
    if count > 2**31:
        raise ValueError(f"{count} values")
    return count


def _array(item: Decoder) -> Decoder:
    def read(cursor: Cursor) -> list[Any]:
        found = []
        while count := _blocks(cursor):
            found += [item(cursor) for _ in range(count)]
        return found

    return read


def _map(value: Decoder) -> Decoder:
    def read(cursor: Cursor) -> dict[str, Any]:
        found = {}
        while count := _blocks(cursor):
            for _ in range(count):
                key = _text(cursor)
                found[key] = value(cursor)
        return found

    return read
