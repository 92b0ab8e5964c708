"""Eagle's public simulator, written for Python 2, as a program that this Python runs. No line of it is kept here.

Only what Python 3 needs is changed: print, modules, integer division, lists of ranges, and the order of events of one
time, which was by memory address and is by creation. `bitmap`, a package of its own, is replaced by a bytearray, which
is faster.
"""

from __future__ import annotations

import re
from typing import Final

BITMAP: Final = """class BitMap(object):
    def __init__(self, size):
        self.bits = bytearray(size)

    def set(self, at):
        self.bits[at] = 1

    def flip(self, at):
        self.bits[at] ^= 1

    def test(self, at):
        return self.bits[at]
"""

_SEED: Final = re.compile(r"^random\.seed\(\d+\)", re.MULTILINE)
_CHANGES: Final = (
    (re.compile(r"^import Queue$", re.MULTILINE), "import itertools\nimport queue as Queue\n_born = itertools.count()"),
    (re.compile(r"^(\s*)print >>\s*(\w+)\s*,(.*?);?$", re.MULTILINE), r"\1print(\3, file=\2)"),
    (re.compile(r"^(\s*)print (?!\()(.*?);?$", re.MULTILINE), r"\1print(\2)"),
    (re.compile(r"\(Event, file\)"), "(Event)"),
    (re.compile(r"^class TaskEndEvent\(\):", re.MULTILINE), "class TaskEndEvent(Event):"),
    (re.compile(r"roundnr/2"), "roundnr//2"),
    (re.compile(r"= range\(TOTAL_WORKERS\)"), "= list(range(TOTAL_WORKERS))"),
    (
        re.compile(r"^class Event\(object\):\n", re.MULTILINE),
        "class Event(object):\n"
        "    def __new__(cls, *args, **kwargs):\n"
        "        self = object.__new__(cls)\n"
        "        self.born = next(_born)\n"
        "        return self\n\n"
        "    def __lt__(self, other):\n"
        "        return self.born < other.born\n\n",
    ),
)


class NoPeerError(ValueError):
    """The file is not the simulator that was expected."""


def seeded(source: str, seed: int) -> str:
    """Return the program with another seed. Raises NoPeerError where it sets none."""
    changed, count = _SEED.subn(f"random.seed({seed})", source)
    if count != 1:
        raise NoPeerError("it sets no seed; give the path of eagle_simulation.py of epfl-labos/eagle")
    return changed


def python3(source: str) -> str:
    """Return the program for Python 3. Raises NoPeerError where something is not as expected."""
    source = source.replace("\r\n", "\n").expandtabs(8)
    for pattern, text in _CHANGES:
        source, count = pattern.subn(text, source)
        if not count:
            raise NoPeerError(f"nothing matches {pattern.pattern!r}; give eagle_simulation.py of epfl-labos/eagle")
    return source
