"""The few calls of MIT Kerberos' GSSAPI library that a client needs to prove by a keytab who it is (RFC 2743, 4178).

The library is the system's own (Debian: libgssapi-krb5-2, Red Hat: krb5-libs), as kinit and curl use it; it is loaded
by the first call, so that nobody without Kerberos needs it.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, Final

from quicksilver.common.errors import QuicksilverError

LIBRARY: Final = "libgssapi_krb5.so.2"
_SPNEGO: Final = b"\x2b\x06\x01\x05\x05\x02"
_KRB5: Final = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"
_INITIATE: Final = 1
_MUTUAL, _INTEGRITY = 2, 32
_CONTINUE: Final = 1
_FAILED: Final = 0xFFFF0000
_BY_ROUTINE, _BY_MECHANISM = 1, 2


class KerberosError(QuicksilverError):
    """Kerberos is not installed, or refused; the text is the library's own."""


class _Buffer(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Oid(ctypes.Structure):
    _fields_ = (("length", c_uint32), ("elements", c_char_p))


class _Element(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Store(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Element)))


_SPNEGO_OID: Final = _Oid(len(_SPNEGO), _SPNEGO)
_KRB5_OID: Final = _Oid(len(_KRB5), _KRB5)
_SIGNATURES: Final[dict[str, list[Any]]] = {
    "gss_import_name": [POINTER(c_uint32), POINTER(_Buffer), c_void_p, POINTER(c_void_p)],
    "gss_release_name": [POINTER(c_uint32), POINTER(c_void_p)],
    "gss_acquire_cred_from": [
        POINTER(c_uint32),
        c_void_p,
        c_uint32,
        c_void_p,
        c_int,
        POINTER(_Store),
        POINTER(c_void_p),
        c_void_p,
        c_void_p,
    ],
    "gss_release_cred": [POINTER(c_uint32), POINTER(c_void_p)],
    "gss_init_sec_context": [
        POINTER(c_uint32),
        c_void_p,
        POINTER(c_void_p),
        c_void_p,
        POINTER(_Oid),
        c_uint32,
        c_uint32,
        c_void_p,
        POINTER(_Buffer),
        c_void_p,
        POINTER(_Buffer),
        c_void_p,
        c_void_p,
    ],
    "gss_wrap": [
        POINTER(c_uint32),
        c_void_p,
        c_int,
        c_uint32,
        POINTER(_Buffer),
        c_void_p,
        POINTER(_Buffer),
    ],
    "gss_unwrap": [POINTER(c_uint32), c_void_p, POINTER(_Buffer), POINTER(_Buffer), c_void_p, c_void_p],
    "gss_delete_sec_context": [POINTER(c_uint32), POINTER(c_void_p), c_void_p],
    "gss_display_status": [
        POINTER(c_uint32),
        c_uint32,
        c_int,
        c_void_p,
        POINTER(c_uint32),
        POINTER(_Buffer),
    ],
    "gss_release_buffer": [POINTER(c_uint32), POINTER(_Buffer)],
}


@cache
def _library() -> ctypes.CDLL:
    """Load it. Raises KerberosError when the system has none."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise KerberosError(
            f"the library is missing ({error})",
            place="Kerberos",
            remedy="install it: apt-get install libgssapi-krb5-2, or yum install krb5-libs",
        ) from error
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_uint32
    return library


def check_installed() -> None:
    """Raise KerberosError when this machine lacks the library."""
    _library()


class Handshake:
    """One handshake as `principal`, with its key in `keytab`, to a service such as HTTP@host; close it.

    plain: Kerberos itself, as SASL's GSSAPI has it (RFC 4752), in place of SPNEGO.
    tickets: name of the credential cache, such as MEMORY:x. The library fetches tickets by the keytab and renews them
    itself, once they have lived half of their time. Without a keytab the tickets of `kinit` are used, whoever they are
    of. All methods raise KerberosError.
    """

    def __init__(self, principal: str, keytab: Path | None, tickets: str, service: str, plain: bool = False) -> None:
        self._lib = _library()
        self._mechanism = _KRB5_OID if plain else _SPNEGO_OID
        self._flags = _MUTUAL | _INTEGRITY if plain else _MUTUAL
        self._context = c_void_p()
        self._credential = c_void_p()
        self._target = c_void_p()
        self.complete = False
        try:
            self._target = self._name(service, "GSS_C_NT_HOSTBASED_SERVICE")
            if keytab is not None:
                self._credential = self._acquire(principal, keytab, tickets)
        except KerberosError:
            self.close()
            raise

    def step(self, token: bytes = b"") -> bytes:
        """Take the server's token (none at first), return ours; `complete` is set when the server has proven itself."""
        minor, source, result = c_uint32(), _buffer(token), _Buffer()
        major = self._lib.gss_init_sec_context(
            byref(minor),
            self._credential,
            byref(self._context),
            self._target,
            byref(self._mechanism),
            self._flags,
            0,
            None,
            byref(source),
            None,
            byref(result),
            None,
            None,
        )
        try:
            self._check(major, minor)
            self.complete = not major & _CONTINUE
            return ctypes.string_at(result.value, result.length) if result.value else b""
        finally:
            self._lib.gss_release_buffer(byref(minor), byref(result))

    def wrap(self, data: bytes) -> bytes:
        """Return data signed, not encrypted; the handshake is complete."""
        minor, source, result = c_uint32(), _buffer(data), _Buffer()
        major = self._lib.gss_wrap(byref(minor), self._context, 0, 0, byref(source), None, byref(result))
        return self._bytes_of(major, minor, result)

    def unwrap(self, data: bytes) -> bytes:
        """Return what the server wrapped; the handshake is complete."""
        minor, source, result = c_uint32(), _buffer(data), _Buffer()
        major = self._lib.gss_unwrap(byref(minor), self._context, byref(source), byref(result), None, None)
        return self._bytes_of(major, minor, result)

    def close(self) -> None:
        """Free what the library holds."""
        minor = c_uint32()
        self._lib.gss_delete_sec_context(byref(minor), byref(self._context), None)
        self._lib.gss_release_cred(byref(minor), byref(self._credential))
        self._lib.gss_release_name(byref(minor), byref(self._target))

    def _bytes_of(self, major: int, minor: c_uint32, result: _Buffer) -> bytes:
        try:
            self._check(major, minor)
            return ctypes.string_at(result.value, result.length) if result.value else b""
        finally:
            self._lib.gss_release_buffer(byref(c_uint32()), byref(result))

    def _name(self, text: str, kind: str) -> c_void_p:
        minor, name, raw = c_uint32(), c_void_p(), _buffer(text.encode())
        form = c_void_p.in_dll(self._lib, kind)
        self._check(self._lib.gss_import_name(byref(minor), byref(raw), form, byref(name)), minor)
        return name

    def _acquire(self, principal: str, keytab: Path, tickets: str) -> c_void_p:
        name = self._name(principal, "GSS_KRB5_NT_PRINCIPAL_NAME")
        minor, credential = c_uint32(), c_void_p()
        elements = (_Element * 2)(
            _Element(b"client_keytab", b"FILE:" + str(keytab).encode()), _Element(b"ccache", tickets.encode())
        )
        store = _Store(len(elements), elements)
        try:
            major = self._lib.gss_acquire_cred_from(
                byref(minor), name, 0, None, _INITIATE, byref(store), byref(credential), None, None
            )
            self._check(major, minor)
        finally:
            self._lib.gss_release_name(byref(c_uint32()), byref(name))
        return credential

    def _check(self, major: int, minor: c_uint32) -> None:
        if major & _FAILED:
            texts = [*self._texts(minor.value, _BY_MECHANISM), *self._texts(major, _BY_ROUTINE)]
            raise KerberosError(next(iter(texts), f"error {major:#x}"), place="Kerberos")

    def _texts(self, code: int, kind: int) -> list[str]:
        """Return what the library says of a code, the most special first."""
        texts: list[str] = []
        more = c_uint32()
        while code:
            minor, text = c_uint32(), _Buffer()
            if self._lib.gss_display_status(byref(minor), code, kind, None, byref(more), byref(text)):
                break
            texts.append(ctypes.string_at(text.value, text.length).decode(errors="replace"))
            self._lib.gss_release_buffer(byref(minor), byref(text))
            if not more.value:
                break
        return [text for text in texts if text]


def _buffer(data: bytes) -> _Buffer:
    """Return a buffer of `data`, which must outlive it: the bytes object is kept at it."""
    buffer = _Buffer(len(data), ctypes.cast(c_char_p(data), c_void_p))
    buffer.keep = data
    return buffer
