"""Long lists of the ResourceManager's REST, record by record: a list of 10,000 nodes has 19 MB of JSON.

The JSON parser of Python holds up all threads while it reads a value. It reads a record at a time here, so that
application masters are answered between two records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_DECODER: Final = json.JSONDecoder()
_NEXT: Final = re.compile(r"\s*([\],])\s*")
_END: Final = re.compile(r"\s*\}\s*\}\s*")


def records(body: bytes, outer: str, inner: str) -> Iterator[Any]:
    """Yield the records of {outer: {inner: [record, ...]}}.

    Raises ValueError or RecursionError where the body has another form, be it after some records.
    """
    text = body.decode()
    start = re.match(rf'\s*\{{\s*"{outer}"\s*:\s*\{{\s*"{inner}"\s*:\s*\[\s*', text)
    if start is None:
        raise ValueError(f"no list {outer}.{inner}")
    at, mark = start.end(), ","
    while mark == ",":
        record, at = _DECODER.raw_decode(text, at)
        yield record
        after = _NEXT.match(text, at)
        if after is None:
            raise ValueError(f"no end of the list at character {at}")
        at, mark = after.end(), after[1]
    if _END.fullmatch(text, at) is None:
        raise ValueError(f"more than a list at character {at}")
