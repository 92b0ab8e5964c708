"""REST security: section `security` of quicksilver.yaml, and its use in servers and clients.

Sidecars and proxies know each other by certificates of one CA: a node's names its host, a proxy's the host of
`sidecar.proxy_url`. People and scrapers bring tokens. Without TLS, tokens of the roles node and proxy stand for the
certificates.
"""

from __future__ import annotations

import ipaddress
import math
import os
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from policies.settings_model import SettingsModel
from quicksilver.common.address import Address
from quicksilver.common.errors import SettingsError
from quicksilver.common.http.rest_errors import tls_reason
from quicksilver.common.http.tokens import AccessTokens, Role, read_private, read_tokens
from quicksilver.common.process.audit_log import write_audit
from quicksilver.common.process.logs import get_logger

log = get_logger(__name__)
SECTION: Final = "security"
_WARN_S: Final = 30 * 86400.0
_NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL, for which Python has no name."""
REMEDY: Final = (
    "set security.tls_cert, tls_key and tls_ca (`quicksilver certs` makes them), listen on loopback, or accept that "
    "everybody who reaches the address may do everything with security.insecure: true (docs/security.md)"
)


class SecuritySettings(SettingsModel):
    """Who may use REST; proxy, sidecars, and commands that ask them read the same section."""

    token_file: Path | None = None
    """Tokens, a line each: `ROLE TOKEN` or `ROLE sha256:DIGEST`; roles read, admin, node, keys, proxy, and
    `user:NAME` at the app server. Mode 0600, or of root with 0640 for the group of proxy and app server."""
    tls_cert: Path | None = None
    """The certificate of this host (PEM, with intermediate ones), for its REST and for its own calls. It needs tls_key
    and tls_ca."""
    tls_key: Path | None = None
    """Its private key (PEM, not encrypted). Modes as of `token_file`."""
    tls_ca: Path | None = None
    """The CA of all certificates of this cluster (PEM), and of nothing else."""
    proxy_names: list[str] = Field([], max_length=100)
    """Names of proxies in their certificates, of which sidecars take grants; default: the host of sidecar.proxy_url.
    With high availability: those of all proxies."""
    host_names: list[str] = Field([], max_length=100)
    """Where callers prove nothing: further names by which REST is called, beside this machine's, those of its addresses
    in the settings, loopback names and IP addresses. Calls by other names get 403, so that a page of another site
    cannot call under a name of its own (DNS rebinding)."""
    metrics_open: bool = False
    """Whether `/metrics`, `/healthz` and `/readyz` answer everybody."""
    insecure: bool = False
    """Let REST listen beyond loopback without TLS, with a loud warning, and send tokens in the clear."""

    @property
    def on(self) -> bool:
        """Whether callers have to say who they are."""
        return self.token_file is not None or self.tls

    @property
    def tls(self) -> bool:
        """Whether REST is served over TLS."""
        return self.tls_cert is not None

    @property
    def scheme(self) -> str:
        """Of URLs of this cluster's REST."""
        return "https" if self.tls or self.tls_ca is not None else "http"

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together; name both, or neither")
        if self.tls_cert is not None and self.tls_ca is None:
            raise ValueError("tls_cert needs tls_ca; name the CA that made the cluster's certificates")
        return self


class Credentials:
    """Credentials of a client: a certificate with TLS, else a token; and the CA that it trusts."""

    def __init__(
        self,
        token: Callable[[], str | None] = lambda: None,
        context: ssl.SSLContext | None = None,
        ca: Path | None = None,
        insecure: bool = False,
    ) -> None:
        self._token, self._insecure = token, insecure
        self.context, self.ca = context, ca

    def headers(self, url: str) -> dict[str, str]:
        """Return the headers for a call of `url`. Raises SettingsError when they would be sent in the clear."""
        token = self._token()
        if token is None:
            return {}
        parts = urlsplit(url)
        if parts.scheme != "https" and not self._insecure and not stays_here(parts.hostname or ""):
            remedy = "name an https:// address, or set security.insecure"
            raise SettingsError("a token would be sent in the clear", place=url, remedy=remedy)
        return {"Authorization": f"Bearer {token}"}


class Security:
    """The tokens and TLS contexts of one process; `reload` reads their files anew."""

    def __init__(self, settings: SecuritySettings | None = None) -> None:
        """Read all files. Raises SettingsError naming the setting and the file."""
        self.settings = settings or SecuritySettings()
        self._on_bad_handshake: Callable[[str], None] = lambda why: None
        self.tokens = self._read_tokens()
        self.server: ssl.SSLContext | None = None
        self._client: ssl.SSLContext | None = None
        self.certificate_ends_s = math.nan
        """When this host's certificate ends (Unix time); NaN without one."""
        if self.settings.tls:
            self.server = self._server_context()
            self._client = _context(ssl.PROTOCOL_TLS_CLIENT)
            self._load(self.server, self._client)
            self._look_at_end()
        elif self.settings.tls_ca is not None:
            text, remedy = "not set, but tls_ca is: REST would be in the clear", "name this host's certificate and key"
            raise SettingsError(text, place=f"{SECTION}.tls_cert", remedy=remedy)

    @property
    def on(self) -> bool:
        """Whether callers have to say who they are."""
        return self.settings.on

    def credentials(self, role: Role) -> Credentials | None:
        """Return what this process shows others as `role`; None when there is no security."""
        if self._client is not None:
            return Credentials(context=self._client, ca=self.settings.tls_ca)
        if not self.on:
            return None
        if self.tokens.first([role]) is None:
            message = f"has no token of the role {role.value}, which this process has to send"
            place, remedy = f"{SECTION}.token_file: {self.settings.token_file}", "add one, or set tls_cert and tls_key"
            raise SettingsError(message, place=place, remedy=remedy)
        return Credentials(lambda: self.tokens.first([role]), insecure=self.settings.insecure)

    def key_credentials(self) -> Credentials | None:
        """Return what a tracker relay shows: a token of the role keys, beside a certificate with TLS."""
        if not self.on:
            return None
        if self.tokens.first([Role.KEYS]) is None:
            message = f"has no token of the role {Role.KEYS.value}, which this process has to send"
            raise SettingsError(message, place=f"{SECTION}.token_file: {self.settings.token_file}", remedy="add one")
        ca = self.settings.tls_ca if self._client is not None else None
        return Credentials(lambda: self.tokens.first([Role.KEYS]), self._client, ca, self.settings.insecure)

    def reload(self) -> None:
        """Read tokens, certificate, key and CA anew, for new connections; a CA stays trusted until a restart.

        Raises SettingsError; then nothing changed.
        """
        tokens = self._read_tokens()
        if self.server is not None and self._client is not None:
            self._load(_context(ssl.PROTOCOL_TLS_SERVER), _context(ssl.PROTOCOL_TLS_CLIENT))  # are they right at all?
            self._load(self.server, self._client)
            self._look_at_end()
        changed = self.tokens.changes(tokens)
        self.tokens = tokens
        if changed:
            user, file = f"uid {os.geteuid()}", str(self.settings.token_file)
            write_audit("tokens", user=user, target=file, details={"changes": changed})

    def on_bad_handshake(self, call: Callable[[str], None]) -> None:
        """Set the function that gets the reason when a client's TLS handshake is refused."""
        self._on_bad_handshake = call

    def allow(self, address: Address, setting: str) -> None:
        """Check an address before REST listens there. Raises SettingsError when strangers would reach it."""
        if self.settings.tls or stays_here(address.host):
            return
        if not self.settings.insecure:
            message, place = "REST would listen beyond loopback without TLS", f"{setting}: {address}"
            raise SettingsError(message, place=place, remedy=REMEDY)
        risk = "tokens go in the clear" if self.on else "everybody who reaches it may do everything"
        log.warning(f"INSECURE REST beyond loopback: {risk}", listen=str(address), remedy=REMEDY)

    def _look_at_end(self) -> None:
        assert self.settings.tls_cert is not None
        assert self.settings.tls_key is not None and self.settings.tls_ca is not None, "_together"
        try:
            self.certificate_ends_s = _end_s(self.settings.tls_cert, self.settings.tls_key, self.settings.tls_ca)
        except ssl.SSLError as error:
            why, remedy = tls_reason(error), "have the CA of security.tls_ca sign it (`quicksilver certs`)"
            log.warning("others will refuse the certificate", file=str(self.settings.tls_cert), why=why, remedy=remedy)
            return
        left_s = self.certificate_ends_s - time.time()
        if left_s < _WARN_S:
            days, remedy = round(left_s / 86400, 1), "renew it (`quicksilver certs ... --renew`), then reload"
            log.warning("the certificate ends soon", file=str(self.settings.tls_cert), days_left=days, remedy=remedy)

    def _read_tokens(self) -> AccessTokens:
        path = self.settings.token_file
        return AccessTokens() if path is None else read_tokens(path, f"{SECTION}.token_file")

    def _server_context(self) -> ssl.SSLContext:
        context = _context(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_OPTIONAL  # who brings a token needs no certificate
        security = self

        class ReportingObject(ssl.SSLObject):
            """Reports failed handshakes: event loops close such connections silently."""

            def do_handshake(self) -> None:
                try:
                    super().do_handshake()
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    raise
                except ssl.SSLError as error:
                    security._on_bad_handshake(getattr(error, "verify_message", "") or error.reason or "TLS")
                    raise

        context.sslobject_class = ReportingObject
        return context

    def _load(self, *contexts: ssl.SSLContext) -> None:
        cert, key, ca = self.settings.tls_cert, self.settings.tls_key, self.settings.tls_ca
        assert cert is not None and key is not None and ca is not None, "_together"
        read_private(key, f"{SECTION}.tls_key")
        for context in contexts:
            try:
                context.load_verify_locations(ca)
            except (OSError, ssl.SSLError) as error:
                message, place = f"is no CA certificate: {_text(error)}", f"{SECTION}.tls_ca: {ca}"
                raise SettingsError(message, place=place, remedy="`quicksilver certs init` makes one") from error
            try:
                context.load_cert_chain(cert, key, password=lambda: "")
            except (OSError, ssl.SSLError) as error:
                message = f"cannot be used with {key}: {_text(error)}"
                remedy = "name a certificate and its own key, both PEM, the key not encrypted"
                raise SettingsError(message, place=f"{SECTION}.tls_cert: {cert}", remedy=remedy) from error


OPEN: Final = Security()
"""No security."""


def client_context(ca: Path) -> ssl.SSLContext:
    """Return the context of a client without a certificate of its own. Raises SettingsError."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as error:
        remedy = "name the cluster's CA (PEM)"
        raise SettingsError(f"is no CA certificate: {_text(error)}", place=str(ca), remedy=remedy) from error
    return context


def certificate_names(certificate: Any) -> frozenset[str]:
    """Return the host names and IP addresses that a peer's checked certificate names, in lower case."""
    names = (certificate or {}).get("subjectAltName", ())
    return frozenset(value.lower() for kind, value in names if kind in ("DNS", "IP Address"))


def is_loopback(host: str) -> bool:
    """Return whether an IP address is of this machine alone; of names only `localhost`."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@lru_cache(maxsize=10_000)
def stays_here(host: str) -> bool:
    """Return whether a name stands for loopback addresses alone, as nodes of a local cluster do."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(is_loopback(str(info[4][0])) for info in addresses)  # an unknown name stands for none


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    return context


def _end_s(certificate: Path, key: Path, ca: Path) -> float:
    """Return when a certificate ends (Unix time), or ended. Raises ssl.SSLError where the CA did not sign it.

    Python's ssl shows the certificate of a peer alone: here that of a connection within memory.
    """
    server_tls, peer_tls = _context(ssl.PROTOCOL_TLS_SERVER), _context(ssl.PROTOCOL_TLS_CLIENT)
    server_tls.load_cert_chain(certificate, key, password=lambda: "")
    peer_tls.load_verify_locations(ca)
    peer_tls.check_hostname = False
    peer_tls.verify_flags |= _NO_CHECK_TIME
    calls, answers = ssl.MemoryBIO(), ssl.MemoryBIO()
    peer, server = peer_tls.wrap_bio(answers, calls), server_tls.wrap_bio(calls, answers, server_side=True)
    for end in (peer, server) * 3:
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    return float(ssl.cert_time_to_seconds((peer.getpeercert() or {})["notAfter"]))  # type: ignore[arg-type]


def _text(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "no PEM"
    return error.strerror or str(error)
