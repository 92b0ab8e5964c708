"""Calls of `requests` in threads that another thread can cut off: it shuts their connection down.

A blocking call ends by nothing else before its timeout. Looking a name up and dialing are not cut off: such a call
ends as soon as there is a connection.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

_here = threading.local()
"""`call`: what this thread does at present."""


class CutOffError(OSError):
    """The call was cut off."""


class RestCall:
    """A call; a context manager of the thread that makes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._over = False

    def __enter__(self) -> Self:
        _here.call = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _here.call = None
        with self._lock:
            self._socket = None  # which another call may have by now

    @property
    def is_over(self) -> bool:
        """Whether it was cut off."""
        return self._over

    def uses(self, connection: socket.socket) -> None:
        """Note the connection. Raises CutOffError."""
        with self._lock:
            if self._over:
                raise CutOffError("the call was cut off")
            self._socket = connection

    def cut_off(self) -> None:
        """End it; from any thread."""
        with self._lock:
            self._over = True
            if self._socket is not None:
                with suppress(OSError):  # it is closed already
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # not TLS's own, which waits for the peer


class _Connection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        self._note()

    def request(self, *arguments: Any, **options: Any) -> None:
        self._note()
        super().request(*arguments, **options)

    def _note(self) -> None:
        call: RestCall | None = getattr(_here, "call", None)
        if call is not None and self.sock is not None:
            call.uses(self.sock)


class _TlsConnection(_Connection, HTTPSConnection):
    """The same, with TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


POOL_CLASSES: Final[dict[str, type[HTTPConnectionPool]]] = {"http": _Pool, "https": _TlsPool}
"""By scheme, for `rest_session`."""
