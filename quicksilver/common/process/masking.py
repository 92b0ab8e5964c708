"""A second line of defence for secrets: those that this process knows are masked in whatever it prints or answers.

The first line is that nobody prints them: settings hold SecretStr or name files.
"""

from __future__ import annotations

import json
import re
from typing import Final
from urllib.parse import quote, quote_plus

MASK: Final = "***"
_SHORTEST: Final = 4
"""A shorter one would mask ordinary text, and protects nothing."""
_MOST: Final = 1000
_PASSWORD: Final = re.compile(r"(://[^\s:/@'\"]*:)[^\s'\"]+@")
_BEARER: Final = re.compile(r"([Bb]earer )[A-Za-z0-9._~+/=-]{16,}")
_known: dict[str, None] = {}


def hide(secret: str) -> None:
    """Mask `secret` from now on, also as URLs and JSON write it; the last 1,000 are remembered."""
    if len(secret) < _SHORTEST:
        return
    forms = {secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    for form in sorted(forms, key=len, reverse=True):
        _known.pop(form, None)
        _known[form] = None
    while len(_known) > _MOST:
        del _known[next(iter(_known))]


def masked(text: str) -> str:
    """Return `text` with every secret that is known replaced by ***, and passwords in URLs and bearer tokens."""
    if "@" in text:
        text = _PASSWORD.sub(rf"\1{MASK}@", text)
    if "earer " in text:
        text = _BEARER.sub(rf"\1{MASK}", text)
    for secret in tuple(_known):
        if secret in text:
            text = text.replace(secret, MASK)
    return text
