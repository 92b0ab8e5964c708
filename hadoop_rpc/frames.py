"""Frames of Hadoop IPC: a 4-byte big-endian length, then that many bytes holding varint-delimited messages."""

from struct import Struct

from hadoop_rpc.errors import LocalProtocolError, RemoteProtocolError

__all__ = [
    "BEFORE_LOGIN_BYTES",
    "DEFAULT_MAX_FRAME_BYTES",
    "FrameBuffer",
    "frame",
    "join_delimited",
    "read_varint",
    "split_delimited",
    "varint",
]

DEFAULT_MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Hadoop's own limit, the default of ipc.maximum.data.length."""

BEFORE_LOGIN_BYTES = 1024 * 1024
"""Longest frame of a peer that has not logged in; a Kerberos ticket has 64 KB at most."""

_LENGTH = Struct(">i")
_MAX_VARINT_BYTES = 5
_MAX_UINT32 = 0xFFFFFFFF


def varint(value: int) -> bytes:
    """Return `value`, 0 to 2**32 - 1, as a protobuf varint of 1 to 5 bytes."""
    if 0 <= value < 0x80:
        return value.to_bytes(1, "big")
    if not 0 <= value <= _MAX_UINT32:
        raise LocalProtocolError(f"{value} does not fit a 32-bit varint")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint that starts at index `at` of `data`, and the index after it.

    Raises RemoteProtocolError when `data` ends within it or it does not fit 32 bits.
    """
    value = 0
    for count in range(_MAX_VARINT_BYTES):
        if at + count >= len(data):
            raise RemoteProtocolError(f"truncated varint: the frame ends at byte {len(data)}, {count} bytes into it")
        byte = data[at + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            if value > _MAX_UINT32:
                raise RemoteProtocolError(f"varint at byte {at} is {value}, more than the limit of {_MAX_UINT32}")
            return value, at + count + 1
    raise RemoteProtocolError(f"varint at byte {at} is longer than the limit of {_MAX_VARINT_BYTES} bytes")


def split_delimited(data: bytes, at: int, name: str) -> tuple[bytes, int]:
    """Return the varint-delimited bytes that start at index `at` of `data`, and the index after them.

    name: their name in the text of the RemoteProtocolError that is raised when `data` is too short.
    """
    limit = len(data)
    if at < limit and (size := data[at]) < 0x80:  # nearly always: one byte of length
        start = at + 1
    else:
        size, start = read_varint(data, at)
    end = start + size
    if end > limit:
        raise RemoteProtocolError(f"truncated {name}: {size} bytes announced, {limit - start} left in the frame")
    return data[start:end], end


def join_delimited(*messages: bytes) -> bytes:
    """Return `messages` joined, each preceded by its length as a varint."""
    return b"".join(part for message in messages for part in (varint(len(message)), message))


def frame(*messages: bytes) -> bytes:
    """Return one frame, its length included, that holds `messages`, each delimited."""
    payload = join_delimited(*messages)
    if len(payload) > 0x7FFFFFFF:
        raise LocalProtocolError(f"{len(payload)} bytes do not fit one frame")
    return len(payload).to_bytes(4, "big") + payload


class FrameBuffer:
    """Cuts a stream of bytes into whole frames and stores the unfinished rest, never more than one frame.

    A frame that is whole within one chunk is cut out of it; only a frame that spans several chunks is collected.
    """

    __slots__ = ("_need", "max_frame_bytes", "unfinished")

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        if not 0 < max_frame_bytes <= 0x7FFFFFFF:
            raise LocalProtocolError(f"max_frame_bytes={max_frame_bytes} is not within 1 and {0x7FFFFFFF}")
        self.max_frame_bytes = max_frame_bytes
        self.unfinished = bytearray()
        self._need = 4  # bytes that `unfinished` needs before the next step: the length, then the whole frame

    def is_whole(self, data: bytes) -> bool:
        """Return whether `data` is one whole frame, with nothing unfinished before it: nearly always, and no copy."""
        size = len(data) - 4
        return 0 <= size <= self.max_frame_bytes and not self.unfinished and int.from_bytes(data[:4], "big") == size

    def receive_data(self, data: bytes, at: int = 0) -> list[bytes]:
        """Handle `data` from index `at` on; return the frames that are complete, each with its 4-byte length.

        Raises RemoteProtocolError for a length below 0 or above `max_frame_bytes`, before any of that frame is stored.
        """
        size = len(data)
        frames: list[bytes] = []
        if self.unfinished:
            at = self._fill(data, at, frames)
        while size - at >= 4:
            end = at + 4 + self._length(data, at)
            if end > size:
                self._need = end - at
                break
            frames.append(data[at:end])
            at = end
        if at < size:
            self.unfinished += data[at:]
        return frames

    def pop_unfinished(self) -> bytes:
        """Return the bytes of an unfinished frame, and drop them."""
        rest = bytes(self.unfinished)
        self.unfinished = bytearray()
        self._need = 4
        return rest

    def _fill(self, data: bytes, at: int, frames: list[bytes]) -> int:
        """Complete the unfinished frame with `data` from `at` on; return the index of the first byte that is left."""
        while at < len(data):
            end = at + self._need - len(self.unfinished)
            self.unfinished += data[at:end]
            if end > len(data):
                return len(data)
            at = end
            if self._need == 4:
                self._need += self._length(self.unfinished, 0)
            if self._need == len(self.unfinished):
                frames.append(self.pop_unfinished())
                return at
        return at

    def _length(self, data: bytes | bytearray, at: int) -> int:
        length: int = _LENGTH.unpack_from(data, at)[0]
        if not 0 <= length <= self.max_frame_bytes:
            raise RemoteProtocolError(
                f"frame of {length} bytes refused: a length must be within 0 and the limit of {self.max_frame_bytes}"
            )
        return length
