"""Certificates for REST: a CA of the cluster's own, and certificates that name a proxy or a node.

Elliptic keys (P-256), PEM, no passphrases; keys have mode 0600. Nothing is replaced but on demand, and then at once.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.tokens import read_private
from quicksilver.common.process.whole_file import write_whole

CA: Final = "ca"
CA_DAYS: Final = 3650
DAYS: Final = 365
_SKEW: Final = timedelta(hours=1)
"""How far before now the validity of a new certificate begins, for clocks that are behind."""
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_MAX_COMMON_NAME: Final = 64


class CertificateError(QuicksilverError):
    """A certificate or key cannot be made, read or replaced."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Shown:
    """Content of a certificate; times are Unix seconds."""

    file: str
    names: tuple[str, ...]
    """Host names and IP addresses."""
    issuer: str
    is_ca: bool
    begins_s: float
    ends_s: float


def make_ca(folder: Path, cluster: str, *, days: float = CA_DAYS, now: datetime | None = None) -> Pair:
    """Make ca.crt and ca.key in `folder`. Raises CertificateError where one is there already."""
    pair = pair_of(folder, CA)
    if pair.certificate.exists() or pair.key.exists():
        message, remedy = "is there already, and all certificates hang on it", "name another --dir for another CA"
        raise CertificateError(message, place=str(pair.certificate), remedy=remedy)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(f"quicksilver CA {cluster}".strip())
    builder = (
        _begun(subject, subject, key.public_key(), days, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(ca=True), critical=True)
    )
    _write(folder, pair, builder.sign(key, hashes.SHA256()), key)
    return pair


def make_certificate(
    folder: Path,
    stem: str,
    names: Sequence[str],
    *,
    days: float = DAYS,
    renew: bool = False,
    now: datetime | None = None,
) -> Pair:
    """Make `stem`.crt and `stem`.key, which name `names`, by the CA in `folder`; for servers and for clients.

    renew: replace those that are there; without names the new one has the old one's. Raises CertificateError.
    """
    pair = pair_of(folder, stem)
    if renew and not names:
        names = show(pair.certificate).names
    elif not renew and (pair.certificate.exists() or pair.key.exists()):
        raise CertificateError("is there already", place=str(pair.certificate), remedy="replace it with --renew")
    issuer, signer = _load_ca(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    common = next((name for name in names if len(name) <= _MAX_COMMON_NAME), stem[:_MAX_COMMON_NAME])
    builder = (
        _begun(_name(common), issuer.subject, key.public_key(), days, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(ca=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    _write(folder, pair, builder.sign(signer, hashes.SHA256()), key)
    return pair


def show(file: Path) -> Shown:
    """Return what the first certificate of a file says. Raises CertificateError."""
    certificate = _load_certificate(file)
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = tuple(str(name.value) for name in extension.value)
    except x509.ExtensionNotFound:
        names = ()
    try:
        is_ca = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_ca = False
    return Shown(
        file=str(file),
        names=names,
        issuer=certificate.issuer.rfc4514_string(),
        is_ca=is_ca,
        begins_s=certificate.not_valid_before_utc.timestamp(),
        ends_s=certificate.not_valid_after_utc.timestamp(),
    )


def pair_of(folder: Path, stem: str) -> Pair:
    """Return the names of the files of a certificate."""
    if re.fullmatch(r"[A-Za-z0-9_.:-]+", stem) is None or stem.startswith("."):
        raise CertificateError(f"{stem!r} is no name of a file", remedy="name a host")
    return Pair(folder / f"{stem}.crt", folder / f"{stem}.key")


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float, now: datetime | None
) -> x509.CertificateBuilder:
    begins = now or datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins - _SKEW)
        .not_valid_after(begins + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:_MAX_COMMON_NAME])])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        labels = name.lower().removesuffix(".").split(".")
        if not all(_LABEL.fullmatch(label) for label in labels) or len(name) > 253:  # no wildcards: they name all nodes
            message, remedy = f"{name!r} is neither a host name nor an IP address", "name hosts as clients do"
            raise CertificateError(message, remedy=remedy) from None
        return x509.DNSName(name.lower())


def _load_ca(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    pair = pair_of(folder, CA)
    certificate = _load_certificate(pair.certificate)
    try:
        key = serialization.load_pem_private_key(read_private(pair.key, "CA key").encode(), password=None)
    except (ValueError, TypeError) as error:
        raise CertificateError("is no private key (PEM)", place=str(pair.key), remedy="restore it") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        message, remedy = (
            f"is not the key of {pair.certificate}",
            "name the --dir of a CA made by `quicksilver certs init`",
        )
        raise CertificateError(message, place=str(pair.key), remedy=remedy)
    return certificate, key


def _load_certificate(file: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except OSError as error:
        remedy = "make it with `quicksilver certs`"
        raise CertificateError(f"cannot be read: {error.strerror}", place=str(file), remedy=remedy) from error
    except ValueError as error:
        raise CertificateError("is no certificate (PEM)", place=str(file), remedy="name another file") from error


def _write(folder: Path, pair: Pair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    """Write both, whole; the key first, so that a certificate never lacks it for long."""
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, content, mode in ((pair.key, secret, 0o600), (pair.certificate, public, 0o644)):
            write_whole(file, content, mode=mode)
    except OSError as error:
        message, remedy = f"cannot be written: {error.strerror}", "name a --dir that this user may write"
        raise CertificateError(message, place=str(error.filename or folder), remedy=remedy) from error
