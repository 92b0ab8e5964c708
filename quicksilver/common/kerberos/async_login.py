"""Kerberos logins (SPNEGO) of a daemon's calls. GSSAPI blocks, so that its steps run in one thread of their own."""

from __future__ import annotations

import asyncio
import base64
from concurrent.futures import Executor, ThreadPoolExecutor

from quicksilver.common.kerberos.gssapi import Handshake, KerberosError
from quicksilver.common.kerberos.keytab import LOGIN_REMEDY, Keytab, negotiate_token


class AsyncHandshake:
    """One handshake, begun: `headers` carry our token, `finish` checks the server's."""

    def __init__(self, handshake: Handshake, token: bytes, message: str, thread: Executor) -> None:
        self.headers = {"Authorization": f"Negotiate {base64.b64encode(token).decode()}"}
        self._handshake, self._message, self._thread = handshake, message, thread

    async def finish(self, challenge: str) -> None:
        """Check that the server proved who it is. Raises KerberosError."""
        try:
            if not self._handshake.complete:
                theirs = negotiate_token(challenge) or b""
                await asyncio.get_running_loop().run_in_executor(self._thread, self._handshake.step, theirs)
            if not self._handshake.complete:
                raise KerberosError("the server did not prove who it is", place="Kerberos")
        except KerberosError as error:
            raise _failed(self._message, error) from error

    def close(self) -> None:
        """Free the handshake."""
        self._handshake.close()


class AsyncLogin:
    """Logs in at servers with a keytab; `host` is the server's name in Kerberos, where the URL has another."""

    def __init__(self, keytab: Keytab, host: str | None = None) -> None:
        self._keytab, self._host = keytab, host
        self._thread = ThreadPoolExecutor(1, "kerberos")

    async def begin(self, challenge: str, host: str) -> AsyncHandshake | None:
        """Return a handshake where a `WWW-Authenticate` header wants one, else None. Raises KerberosError."""
        message = f"no Kerberos login at HTTP@{self._host or host} as {self._keytab.principal}"
        try:
            if negotiate_token(challenge) is None:
                return None
            loop = asyncio.get_running_loop()
            handshake, token = await loop.run_in_executor(self._thread, self._first_step, self._host or host)
        except KerberosError as error:
            raise _failed(message, error) from error
        return AsyncHandshake(handshake, token, message, self._thread)

    def close(self) -> None:
        """Give the thread back."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _first_step(self, host: str) -> tuple[Handshake, bytes]:
        keytab = self._keytab
        handshake = Handshake(keytab.principal, keytab.path, keytab.tickets, f"HTTP@{host}")
        try:
            return handshake, handshake.step()
        except KerberosError:
            handshake.close()
            raise


def _failed(message: str, error: KerberosError) -> KerberosError:
    return KerberosError(f"{message}: {error} ({LOGIN_REMEDY})")
