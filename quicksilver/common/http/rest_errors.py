"""Errors of REST calls, on both sides; every error answer is `{"error": {"code": ..., "message": ...}}`."""

from __future__ import annotations

import ssl
from typing import Final

from pydantic import BaseModel

from quicksilver.common.errors import QuicksilverError

KERBEROS_HINT: Final = ": it wants a Kerberos login; set kerberos_principal and kerberos_keytab (docs/security.md)"


class UnreachableError(QuicksilverError):
    """Nobody answers at a REST address."""

    retriable = True


REFUSAL_CHARACTERS: Final = 2000
"""Of a peer's reason that an error repeats."""
_LATER: Final = frozenset((429, 502, 503, 504))
"""Statuses of a server, or of one behind it, that is overloaded or not ready."""


class RefusedError(QuicksilverError):
    """A server answered a call with an error; `status` is HTTP's, `code` the envelope's (or `http-STATUS`)."""

    def __init__(self, message: str, *, place: str, status: int, code: str) -> None:
        super().__init__(message, place=place)
        self.status, self.code = status, code
        self.retriable = status in _LATER


class ApiError(QuicksilverError):
    """Raise it in a route: the caller gets `status` with the envelope of `code` and the message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class ErrorBody(BaseModel):
    """What went wrong."""

    code: str
    message: str


class ErrorEnvelope(BaseModel):
    """The body of every error answer."""

    error: ErrorBody


def refused(status: int, answer: bytes, url: str, message: str = "") -> RefusedError:
    """Return the error in an answer's body; `message` is its text if the body is no envelope."""
    try:
        error = ErrorEnvelope.model_validate_json(answer).error
    except ValueError:
        return RefusedError(message or f"answered {status}", place=url, status=status, code=f"http-{status}")
    return RefusedError(error.message[:REFUSAL_CHARACTERS], place=url, status=status, code=error.code[:100])


def tls_reason(error: BaseException) -> str:
    """Return what OpenSSL says, out of what a library of HTTP wraps around it."""
    inner: BaseException | None = error
    for _ in range(6):
        if isinstance(inner, ssl.SSLCertVerificationError):
            return f"the server's certificate: {inner.verify_message.rstrip('.')}"
        if isinstance(inner, ssl.SSLError) and inner.reason:
            return inner.reason.lower().replace("_", " ")
        if inner is None:
            break
        causes = [part for part in inner.args if isinstance(part, BaseException)]
        inner = getattr(inner, "reason", None) or next(iter(causes), None) or inner.__cause__ or inner.__context__
    return type(error).__name__
