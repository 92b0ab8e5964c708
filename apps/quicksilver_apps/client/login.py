"""Who submits: by name alone, or by Kerberos with a keytab or the tickets of `kinit`."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import requests
from requests.auth import AuthBase

from quicksilver.common.http.rest_client import rest_session
from quicksilver.common.kerberos.gssapi import Handshake
from quicksilver.common.kerberos.keytab import Keytab
from quicksilver.common.kerberos.login import Negotiate
from quicksilver_apps.client.errors import ClientError
from quicksilver_apps.client.site import ClusterSite

TICKETS: Final = "get tickets with `kinit`, or name --principal and --keytab"


@dataclass(frozen=True, slots=True)
class Login:
    """How this process shows who it is at ResourceManager and NameNode."""

    user: str | None
    """The name, which servers of an insecure cluster believe; None on a secure one."""
    keytab: Keytab | None = None
    """On a secure cluster: the login by Kerberos."""

    @classmethod
    def of(cls, site: ClusterSite, principal: str | None = None, keytab: Path | None = None) -> Login:
        """Return the login of who runs this: $HADOOP_USER_NAME or the system's user; Kerberos where it is wanted.

        Without principal and keytab the tickets of `kinit` are used. Raises SettingsError, KerberosError, ClientError.
        """
        if not site.secure:
            if principal or keytab:
                problem = "--principal and --keytab need a secure cluster"
                raise ClientError(
                    problem, place=site.conf.place("hadoop.security.authentication"), remedy="leave them out"
                )
            return cls(os.environ.get("HADOOP_USER_NAME") or getpass.getuser())
        credentials = Keytab.of(principal, keytab, "app")
        return cls(None, credentials or Keytab.of_tickets())

    @property
    def auth(self) -> AuthBase | None:
        """A login at web servers."""
        return None if self.keytab is None else Negotiate(self.keytab)

    @property
    def params(self) -> dict[str, str]:
        """Query parameters by which a web server of an insecure cluster knows who asks."""
        return {} if self.user is None else {"user.name": self.user}

    def handshake(self, service: str) -> Handshake:
        """Return a login by Kerberos at a service of Hadoop's RPC, such as `yarn@host`. Raises KerberosError."""
        assert self.keytab is not None, "an insecure cluster wants none"
        return Handshake(self.keytab.principal, self.keytab.path, self.keytab.tickets, service, plain=True)

    def session(self, ca: Path | None = None) -> requests.Session:
        """Return a session of HTTP with this login. ca: the CA of the cluster's https servers; None: the system's."""
        session = rest_session()
        session.auth = self.auth
        if ca is not None:
            session.verify = str(ca)
        return session
