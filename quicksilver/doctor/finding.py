"""Helpers that build findings, so that checks stay short."""

from __future__ import annotations

from collections.abc import Mapping

from quicksilver.doctor.codes import CODES
from quicksilver.doctor.model import (
    CLIENT,
    NM,
    RM,
    SETTINGS,
    YARN_SITE,
    DoctorPlace,
    DoctorSite,
    Finding,
    Remedy,
    Severity,
)

RESTARTS: Mapping[str, str] = {RM: "ResourceManager", NM: "NodeManager", CLIENT: "nothing; jobs that start later"}


def finding(
    code: str,
    place: DoctorPlace,
    state: str,
    norm: str,
    why: str,
    remedy: Remedy,
    *,
    name: str = "",
    severity: Severity | None = None,
) -> Finding:
    """Return a finding; its severity is the code's own unless one is given."""
    return Finding(code, CODES[code][0] if severity is None else severity, state, norm, why, (place,), remedy, name)


def text_of(site: DoctorSite, name: str) -> str:
    """Return a property as text: `name=value`, or that it is not set and what that means."""
    value = site.conf.text(name)
    if name in site.conf.properties:
        return f"{name}={value}"
    return f"{name} is not set, which means {value}" if value else f"{name} is not set"


def must_be(
    site: DoctorSite,
    code: str,
    name: str,
    value: str,
    why: str,
    *,
    state: str = "",
    norm: str = "",
    file: str = YARN_SITE,
    severity: Severity | None = None,
    also: Mapping[str, str] | None = None,
) -> Finding:
    """Return the finding that a property has to have a value; `also`: further properties of the same remedy."""
    remedy = Remedy(file=site.file_of(name, file), put={name: value, **(also or {})}, restart=RESTARTS[site.role])
    state, norm = state or text_of(site, name), norm or f"{name}={value}"
    return finding(code, site.place(name), state, norm, why, remedy, name=name, severity=severity)


def setting(text: str, restart: str = "") -> Remedy:
    """Return a remedy in quicksilver.yaml, as words."""
    return Remedy(text=text, file=SETTINGS, restart=restart)
