"""Token files: who may do what over REST, by bearer tokens.

A line each: a role and a token, or the SHA-256 of one, which lets check a token but not use it. Several lines of a role
let tokens be rolled without a gap: servers take all of them, clients send the first. `ROLE:NAME` names the user.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from quicksilver.common.errors import SettingsError
from quicksilver.common.process.masking import hide

_DIGEST: Final = "sha256:"
_SHORTEST: Final = 32
_FORM: Final = re.compile(r"[A-Za-z0-9._~+/=-]+")
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@/-]{0,99}")
_MAX_BYTES: Final = 1 << 16
_OTHERS: Final = 0o077
_MAKE: Final = "make one with `quicksilver certs token ROLE FILE`"


class Role(StrEnum):
    """Role of a caller."""

    READ = "read"
    """GET."""
    ADMIN = "admin"
    """GET, and whatever changes something: reload, drain."""
    NODE = "node"
    """A sidecar: reports."""
    KEYS = "keys"
    """A tracker relay, at the proxy: the master keys of its node."""
    PROXY = "proxy"
    """The proxy, at sidecars: grants, reloads."""
    USER = "user"
    """At the app server: the applications of the user whom the line names."""


@dataclass(frozen=True, slots=True)
class Token:
    """One line of a token file."""

    role: Role
    digest: bytes
    """SHA-256 of the token."""
    text: str | None = field(default=None, repr=False)
    """The token itself; None where the file has the digest alone."""
    user: str = ""
    """The user whom it stands for; "" where the line names none."""


class AccessTokens:
    """The tokens of one file."""

    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        self._tokens = tuple(tokens)

    def roles(self, text: str) -> frozenset[Role]:
        """Return the roles of a token that somebody sent; none when it is unknown. Takes as long for all of them."""
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        return frozenset([token.role for token in self._tokens if hmac.compare_digest(token.digest, digest)])

    def user(self, text: str) -> str:
        """Return the user whom a token stands for; "" when its line names none, or it is unknown."""
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        names = [token.user for token in self._tokens if hmac.compare_digest(token.digest, digest)]
        return next(filter(None, names), "")

    def first(self, roles: Iterable[Role]) -> str | None:
        """Return the token to send: the first of the first of these roles that has one."""
        for role in roles:
            for token in self._tokens:
                if token.role is role and token.text is not None:
                    return token.text
        return None

    def changes(self, later: AccessTokens) -> str:
        """Return what a later file has otherwise, such as `+1 admin, -1 read`; "" when it has the same tokens."""
        mine, its = ({(token.role, token.digest, token.user) for token in tokens._tokens} for tokens in (self, later))
        steps = (("+", its - mine), ("-", mine - its))
        counts = [(sign, role, sum(r is role for r, *_ in some)) for sign, some in steps for role in Role]
        return ", ".join(f"{sign}{count} {role.value}" for sign, role, count in counts if count)

    def __len__(self) -> int:
        return len(self._tokens)


def read_tokens(path: Path, place: str) -> AccessTokens:
    """Read a token file. Raises SettingsError naming `place` (the setting) and the line; never with a token."""
    text = read_private(path, place)
    tokens = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.partition("#")[0].split()
        if bare:
            tokens.append(_token(bare, f"{path}:{number}"))
    if not tokens:
        raise SettingsError("has no tokens", place=f"{place}: {path}", remedy=_MAKE)
    for token in tokens:
        if token.text is not None:
            hide(token.text)
    return AccessTokens(tokens)


def read_private(path: Path, place: str) -> str:
    """Read a small file that only its owner may read, or a group that root has given it to. Raises SettingsError."""
    where = f"{place}: {path}"
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        remedy = "name a file that this process may read"
        raise SettingsError(f"cannot be read: {error.strerror}", place=where, remedy=remedy) from error
    shared = stat.S_IRGRP if about.st_uid == 0 else 0
    if about.st_mode & _OTHERS & ~shared and stat.S_ISREG(about.st_mode):
        message = f"others than its owner may use it (mode {stat.S_IMODE(about.st_mode):04o})"
        remedy = f"chmod 600 {path}, or give it to root and a group of its own with mode 640"
        raise SettingsError(message, place=where, remedy=remedy)
    if len(content) > _MAX_BYTES:
        raise SettingsError(f"has more than {_MAX_BYTES} bytes", place=where, remedy="name the right file")
    return content.decode("utf-8", "replace")


def add_token(path: Path, role: Role, user: str = "") -> str:
    """Append a new random token to a file (made with mode 0600) and return it.

    user: whom it stands for; the role user needs one. Raises SettingsError.
    """
    name = _named(role, user, str(path))
    if path.exists():
        before = read_private(path, "token file")
        gap = "" if before.endswith("\n") or not before else "\n"
    else:
        gap = ""
    text = secrets.token_urlsafe(32)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{gap}{name} {text}\n")
    except OSError as error:
        message, remedy = f"cannot be written: {error.strerror}", "name a file that this user may write"
        raise SettingsError(message, place=str(path), remedy=remedy) from error
    hide(text)
    return text


def _token(words: list[str], place: str) -> Token:
    known = ", ".join(role.value for role in Role)
    if len(words) != 2:
        raise SettingsError("is not a role and a token", place=place, remedy=f"write `ROLE TOKEN`; roles: {known}")
    (name, _, user), text = words[0].partition(":"), words[1]
    if name not in {role.value for role in Role}:
        raise SettingsError("does not begin with a role", place=place, remedy=f"take one of {known}")
    _named(Role(name), user, place)
    if text.startswith(_DIGEST):
        try:
            digest = bytes.fromhex(text.removeprefix(_DIGEST))
        except ValueError:
            digest = b""
        if len(digest) != hashlib.sha256().digest_size:
            raise SettingsError("has a broken SHA-256", place=place, remedy="write sha256: and 64 hexadecimal digits")
        return Token(Role(name), digest, user=user)
    if len(text) < _SHORTEST or _FORM.fullmatch(text) is None:
        message = f"has a token shorter than {_SHORTEST} characters, or with characters that HTTP does not take"
        raise SettingsError(message, place=place, remedy=_MAKE)
    return Token(Role(name), hashlib.sha256(text.encode()).digest(), text, user)


def _named(role: Role, user: str, place: str) -> str:
    """Return a role with its user, as a line begins. Raises SettingsError."""
    if role is Role.USER and not user:
        raise SettingsError("a token of the role user names no user", place=place, remedy="write user:NAME")
    if user and _USER.fullmatch(user) is None:
        remedy = "write up to 100 letters, digits, ., _, @, / and -"
        raise SettingsError("does not name a user of a plain form", place=place, remedy=remedy)
    return f"{role.value}:{user}" if user else role.value
