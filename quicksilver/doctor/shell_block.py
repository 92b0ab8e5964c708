"""Lines in a marked block at the end of a shell script, and the script without them, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from quicksilver.common.errors import SettingsError

BEGIN: Final = b"# quicksilver install: begin"
END: Final = b"# quicksilver install: end"
_NEW: Final = b" (new file)"
_ENDED: Final = b" (line above ended)"


def added(text: bytes | None, lines: Sequence[str]) -> bytes | None:
    """Return a script with a block of these lines; without lines as it is. None: there is no such file."""
    if not lines:
        return text
    mark = _NEW if text is None else _ENDED if text and not text.endswith(b"\n") else b""
    before = (text or b"") + (b"\n" if mark == _ENDED else b"")
    body = "".join(f"{line}\n" for line in lines).encode()
    return before + BEGIN + mark + b"; `quicksilver uninstall` removes it\n" + body + END + b"\n"


def removed(text: bytes, file: Path) -> bytes | None:
    """Return a script without the block; None when it was made for the block. Raises SettingsError for a part of it."""
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 and end < 0:
        return text
    if begin < 0 or end < begin:
        message = "has a part of what quicksilver installed, but not its beginning and end"
        remedy = f"remove the lines from {BEGIN.decode()} to its end by hand"
        raise SettingsError(message, place=str(file), remedy=remedy)
    mark = text[begin + len(BEGIN) : text.index(b"\n", begin)]
    rest = text[end + len(END) :].removeprefix(b"\n")
    before = text[:begin].removesuffix(b"\n") if mark.startswith(_ENDED) else text[:begin]
    return None if mark.startswith(_NEW) and not before + rest else before + rest
