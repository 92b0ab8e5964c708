"""Who calls: roles at the app server, and what each may see and change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fastapi import Request

from quicksilver.common.http.access import Side
from quicksilver.common.http.audit_trail import LOG_LEVEL, sets_level
from quicksilver.common.http.browser_login import token_of
from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.http.security import Security
from quicksilver.common.http.tokens import Role
from quicksilver_apps.server.records import ServedApplication

ROLES: Final = (Role.ADMIN, Role.USER, Role.READ)
"""That callers may have, the one that counts first."""
_BEARER: Final = "bearer "


class AppServerSide(Side):
    """The rules of REST: readers read, users and admins change; whose applications, the routes say."""

    def may(self, method: str, path: str, query: bytes = b"") -> frozenset[Role]:
        """Return the roles that may do this."""
        if path == LOG_LEVEL and sets_level(query):
            return frozenset([Role.ADMIN])
        if method in ("GET", "HEAD") or path == "/v1/check":
            return frozenset(ROLES)
        return frozenset([Role.USER, Role.ADMIN])


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls a route."""

    user: str
    role: str
    """admin, user, read, or `open` where there is no security."""

    @property
    def is_admin(self) -> bool:
        """Whether all applications are this caller's to change."""
        return self.role in ("admin", "open")

    @property
    def sees(self) -> str:
        """Whose applications this caller sees; "": all."""
        return self.user if self.role == "user" else ""

    @property
    def quota_role(self) -> str:
        """The role that counts for quotas."""
        return "admin" if self.is_admin else "user"

    def may_see(self, user: str) -> bool:
        """Return whether this caller sees a user's applications."""
        return not self.sees or user == self.sees

    def may_change(self, user: str) -> bool:
        """Return whether this caller changes a user's applications."""
        return self.is_admin or (self.role == "user" and user == self.user)

    def check_change(self, record: ServedApplication) -> None:
        """Raise ApiError unless this caller may change an application."""
        if not self.may_change(record.user):
            raise ApiError(403, "forbidden", f"the application is {record.user}'s; an admin may change it, too")


class Callers:
    """Finds out who calls, by token or cookie; `open_user` is everybody where there is no security."""

    def __init__(self, security: Security, open_user: str) -> None:
        self._security, self._open_user = security, open_user

    def __call__(self, request: Request) -> Caller:
        """Return who calls; access is checked already."""
        if not self._security.on:
            return Caller(self._open_user, "open")
        header = request.headers.get("authorization")
        is_token = header is not None and header[: len(_BEARER)].lower() == _BEARER
        token = (header or "")[len(_BEARER) :].strip() if is_token else token_of(request.headers) or ""
        tokens = self._security.tokens
        roles = tokens.roles(token) if token else frozenset()
        role = next((role for role in ROLES if role in roles), Role.READ)
        user = tokens.user(token) if token else ""
        return Caller(user or (self._open_user if role is Role.ADMIN else ""), role.value)
