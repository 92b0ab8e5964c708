"""Mutations of bytes, of protobuf messages (by their fields, at any depth), and of Hadoop IPC frames."""

from __future__ import annotations

from random import Random
from typing import Final

INTERESTING: Final = (
    0,
    1,
    2,
    3,
    127,
    128,
    255,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64 - 2,
)
"""Numbers at which sizes, signs and widths change."""
_DEPTH: Final = 6
_LARGEST: Final = 1 << 16

Field = tuple[int, int | bytes]
"""Tag (number << 3 | wire type) and value: a number for wire type 0, else bytes."""


def varint(value: int) -> bytes:
    """Return a number of up to 64 bits as a varint."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint_at(data: bytes, at: int) -> tuple[int, int] | None:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    return None


def fields_of(data: bytes) -> list[Field] | None:
    """Return the fields of a message; None when `data` is none."""
    fields: list[Field] = []
    at = 0
    while at < len(data):
        tag = _varint_at(data, at)
        if tag is None or tag[0] >> 3 == 0:
            return None
        number, at = tag
        kind = number & 7
        if kind == 0:
            value = _varint_at(data, at)
            if value is None:
                return None
            fields.append((number, value[0]))
            at = value[1]
            continue
        size = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            length = _varint_at(data, at)
            if length is None:
                return None
            size, at = length
        if size is None or at + size > len(data):
            return None
        fields.append((number, data[at : at + size]))
        at += size
    return fields


def message_of(fields: list[Field]) -> bytes:
    """Return fields as a message."""
    out = bytearray()
    for tag, value in fields:
        out += varint(tag)
        if isinstance(value, int):
            out += varint(value)
        elif tag & 7 == 2:
            out += varint(len(value)) + value
        else:
            out += value
    return bytes(out)


def mutated_bytes(data: bytes, rng: Random) -> bytes:
    """Return `data` with bits turned, parts cut, doubled, or put in."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(out) + 1)
        end = min(len(out), at + rng.choice((1, 2, 4, 16, 64)))
        kind = rng.randrange(6)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[at:end]
        elif kind == 2:
            out[at:at] = out[at:end]
        elif kind == 3:
            out[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8)))
        elif kind == 4:
            out[at:end] = bytes([rng.choice((0, 0x7F, 0x80, 0xFF))]) * (end - at)
        else:
            del out[at:]
    return bytes(out[:_LARGEST])


def mutated_message(data: bytes, rng: Random, depth: int = 0) -> bytes:
    """Return a message with one of its fields, or of its messages' fields, changed; bytes where it is none."""
    fields = fields_of(data)
    if fields is None or depth > _DEPTH:
        return mutated_bytes(data, rng)
    if not fields:
        return _random_field(rng)
    at = rng.randrange(len(fields))
    kind = rng.random()
    if kind < 0.6:
        fields[at] = _mutated_field(fields[at], rng, depth)
    elif kind < 0.7:
        del fields[at]
    elif kind < 0.8:
        fields[at:at] = [fields[at]] * rng.choice((1, 1, 2, 10, 100))
    elif kind < 0.9:
        partner = rng.randrange(len(fields))
        fields[at], fields[partner] = fields[partner], fields[at]
    else:
        return (message_of(fields) + _random_field(rng))[:_LARGEST]
    return message_of(fields)[:_LARGEST]


def _mutated_field(field: Field, rng: Random, depth: int) -> Field:
    tag, value = field
    if rng.random() < 0.05:
        return (rng.randrange(1, 40) << 3 | tag & 7, value)
    if isinstance(value, int):
        near = value + rng.choice((-1, 1)) if rng.random() < 0.3 else rng.choice(INTERESTING)
        return (tag, near if rng.random() < 0.9 else rng.getrandbits(64))
    if tag & 7 != 2:
        return (tag, rng.randbytes(len(value)))
    nested = rng.random() < 0.8
    return (tag, mutated_message(value, rng, depth + 1) if nested else mutated_bytes(value, rng))


def _random_field(rng: Random) -> bytes:
    number = rng.choice((rng.randrange(1, 20), rng.randrange(1, 600)))
    if rng.random() < 0.5:
        return message_of([(number << 3, rng.choice(INTERESTING))])
    return message_of([(number << 3 | 2, rng.randbytes(rng.choice((0, 1, 4, 20))))])


def parts_of(payload: bytes) -> list[bytes] | None:
    """Return the delimited messages of a frame's payload; None when it holds something else."""
    parts, at = [], 0
    while at < len(payload):
        size = _varint_at(payload, at)
        if size is None or size[1] + size[0] > len(payload):
            return None
        parts.append(payload[size[1] : size[1] + size[0]])
        at = size[1] + size[0]
    return parts


def frame_of(parts: list[bytes]) -> bytes:
    """Return a frame that holds these messages."""
    payload = b"".join(varint(len(part)) + part for part in parts)
    return len(payload).to_bytes(4, "big") + payload


def mutated_frame(raw: bytes, rng: Random, *, tame: float = 0.8) -> bytes:
    """Return a frame with something changed.

    tame: how often only the last message is, so that the conversation can go on.
    """
    parts = parts_of(raw[4:])
    if not parts:
        return mutated_bytes(raw, rng)
    if rng.random() < tame:
        parts[-1] = mutated_message(parts[-1], rng)
        return frame_of(parts)
    kind = rng.randrange(5)
    if kind == 0:
        parts[0] = mutated_message(parts[0], rng)
    elif kind == 1:
        at = rng.randrange(len(parts))
        parts[at] = mutated_message(parts[at], rng)
    elif kind == 2:
        parts.insert(rng.randrange(len(parts) + 1), rng.randbytes(rng.choice((0, 1, 5))))
    elif kind == 3:
        return raw[:4] + mutated_bytes(raw[4:], rng)
    else:
        size = rng.choice((0, 1, len(raw), 2**31 - 1, 2**31, 2**32 - 1, 64 << 20))
        return size.to_bytes(4, "big") + raw[4:]
    return frame_of(parts)
