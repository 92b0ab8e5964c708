"""A principal and its keytab, and what a web server says that wants a Kerberos login."""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from quicksilver.common.errors import SettingsError
from quicksilver.common.kerberos.gssapi import KerberosError, check_installed

_NEGOTIATE: Final = re.compile(r"(?:^|,)\s*negotiate(?:\s+([A-Za-z0-9+/=]+))?\s*(?:,|$)", re.IGNORECASE)
LOGIN_REMEDY: Final = (
    "is the principal in the keytab (`klist -k`), and does `kinit -k -t KEYTAB PRINCIPAL` work as this user?"
)


@dataclass(frozen=True, slots=True)
class Keytab:
    """A principal and its keytab. Tickets stay in this process's memory and are renewed by themselves."""

    principal: str
    path: Path | None
    """None: the tickets that `kinit` got are used ($KRB5CCNAME), and nothing renews them."""
    tickets: str = field(default_factory=lambda: f"MEMORY:quicksilver-{secrets.token_hex(8)}", repr=False)

    @classmethod
    def of(cls, principal: str | None, keytab: Path | None, section: str) -> Self | None:
        """Return the login that a section's settings `kerberos_principal` and `kerberos_keytab` name; None without.

        `_HOST` in the principal stands for this host's full name, as in Hadoop. Raises SettingsError naming the setting
        when one of them is missing or the file cannot be read, KerberosError when this machine has no Kerberos.
        """
        if principal is None and keytab is None:
            return None
        if principal is None or keytab is None:
            missing = "kerberos_principal" if principal is None else "kerberos_keytab"
            raise SettingsError(
                "not set", place=f"{section}.{missing}", remedy="a Kerberos login needs both principal and keytab"
            )
        if not os.access(keytab, os.R_OK):
            why = "cannot be read by this user" if keytab.exists() else "is not there"
            remedy = "make it with kadmin's ktadd, readable by this user alone (mode 0400)"
            raise SettingsError(f"{keytab} {why}", place=f"{section}.kerberos_keytab", remedy=remedy)
        check_installed()
        return cls(principal.replace("_HOST", socket.getfqdn().lower()), keytab)

    @classmethod
    def of_tickets(cls) -> Self:
        """Return the login of whoever ran `kinit`. Raises KerberosError when this machine has no Kerberos."""
        check_installed()
        return cls("the user of `kinit`", None)


def negotiate_token(challenge: str) -> bytes | None:
    """Return the token that a server sends by `WWW-Authenticate: Negotiate`, b"" when it wants ours, None without.

    Raises KerberosError when it is not base64.
    """
    match = _NEGOTIATE.search(challenge)
    if match is None:
        return None
    try:
        return base64.b64decode(match.group(1) or "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise KerberosError("the server's token is not base64", place="Kerberos") from error
