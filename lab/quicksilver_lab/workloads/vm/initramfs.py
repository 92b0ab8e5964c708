"""An initramfs: a cpio archive in the "newc" format, as the kernel's early-userspace/buffer-format describes it."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

_APPLETS: Final = ("sh", "mount", "insmod", "mkdir", "ip", "chroot", "poweroff", "echo")
_DIRECTORIES: Final = ("bin", "proc", "sys", "dev", "root")
_DIRECTORY, _FILE, _LINK, _DEVICE = 0o040000, 0o100000, 0o120000, 0o020000


def pack(files: Mapping[str, tuple[int, bytes]]) -> bytes:
    """Return an archive of `files` (path -> mode, content) with busybox's applets linked in bin/."""
    entries = [_entry(number, name, _DIRECTORY | 0o755, b"") for number, name in enumerate(_DIRECTORIES, 1)]
    entries.append(_entry(90, "dev/console", _DEVICE | 0o600, b"", device=(5, 1)))
    for number, applet in enumerate(_APPLETS, 100):
        entries.append(_entry(number, f"bin/{applet}", _LINK | 0o777, b"busybox"))
    for number, (name, (mode, content)) in enumerate(files.items(), 200):
        assert PurePosixPath(name).parent.as_posix() in (".", *_DIRECTORIES)
        entries.append(_entry(number, name, _FILE | mode, content))
    return b"".join([*entries, _entry(0, "TRAILER!!!", 0, b"")])


def _entry(number: int, name: str, mode: int, content: bytes, device: tuple[int, int] = (0, 0)) -> bytes:
    """Return one entry: magic, 13 numbers of 8 hexadecimal digits, the name and the content padded to 4 bytes."""
    encoded = name.encode() + b"\0"
    numbers = (number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0)
    header = b"070701" + "".join(f"{n:08X}" for n in numbers).encode()
    return _padded(header + encoded) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
