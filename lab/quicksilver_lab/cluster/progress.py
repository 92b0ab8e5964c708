"""Lines of progress for where no terminal shows them in place of each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_PAUSE_S: Final = 10.0


class FewLines:
    """Chooses the lines to print: of a download, which reports each file, one in ten seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_s = clock()

    def prints(self, message: str) -> bool:
        """Return whether to print this line."""
        if "downloaded" not in message:
            return True
        now_s = self._clock()
        if now_s < self._next_s:
            return False
        self._next_s = now_s + _PAUSE_S
        return True
