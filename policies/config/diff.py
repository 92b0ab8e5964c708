"""The differences of two descriptions of settings: which setting, from which value, to which."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

MAX_CHANGES: Final = 500
_TEXT: Final = 2000
_NONE: Final = object()


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that changed; values as JSON, "" where there is none."""

    path: str
    before: str
    after: str


def changes(before: Any, after: Any, path: str = "policies") -> list[Change]:
    """Return the differences in the order of the keys, MAX_CHANGES at most; path: the place of both."""
    return list(islice(_differences(before, after, path), MAX_CHANGES))


def _differences(before: Any, after: Any, path: str) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from _differences(before.get(key, _NONE), after.get(key, _NONE), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(old, new, f"{path}[{number}]")
    elif before != after or type(before) is not type(after):
        yield Change(path, _text(before), _text(after))


def _text(value: Any) -> str:
    text = "" if value is _NONE else json.dumps(value, default=str)
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 3]}..."
