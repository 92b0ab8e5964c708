"""Checks of what docs/security.md#kerberos asks for where YARN's web servers want Kerberos."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from quicksilver.doctor.checks.nm import BIND, is_loopback
from quicksilver.doctor.finding import finding, must_be, setting, text_of
from quicksilver.doctor.model import DoctorSite, Facts, Finding, Severity

WEB_TYPE: Final = "hadoop.http.authentication.type"
WEB_PRINCIPAL: Final = "hadoop.http.authentication.kerberos.principal"
KEYTAB: Final = Path("/etc/quicksilver/quicksilver.keytab")
USER: Final = "quicksilver"
_ADMINS: Final = "yarn.admin.acl"
_HOST: Final = "_HOST"


def check(facts: Facts) -> Iterator[Finding]:
    """Yield what is missing for proxy and sidecars on a cluster with Kerberos."""
    settings = facts.settings
    proxy, sidecar = settings.proxy, settings.sidecar
    for site in facts.rms:
        if wants_login(site):
            yield from _login(site, facts, "proxy", proxy.kerberos_principal, proxy.kerberos_keytab)
            yield from _may_see(site, proxy.kerberos_principal or USER)
    for site in facts.nms:
        if wants_login(site):
            yield from _login(site, facts, "sidecar", sidecar.kerberos_principal, sidecar.kerberos_keytab)
            if sidecar.intercept == "bind_host":
                yield from _web_server(site)


def wants_login(site: DoctorSite) -> bool:
    """Return whether this daemon's web server wants a Kerberos login (SPNEGO)."""
    return site.text(WEB_TYPE).lower() == "kerberos"


def principal_of(site: DoctorSite) -> str:
    """Return the principal to propose for proxy and sidecars, in the realm of YARN's own."""
    names = (WEB_PRINCIPAL, "yarn.resourcemanager.principal", "yarn.nodemanager.principal")
    own = (site.text(name) for name in names if name in site.conf.properties)
    realm = next((name.rpartition("@")[2] for name in own if "@" in name), "YOUR.REALM")
    return f"{USER}/{_HOST}@{realm}"


def _login(
    site: DoctorSite, facts: Facts, section: str, principal: str | None, keytab: Path | None
) -> Iterator[Finding]:
    values = {"kerberos_principal": principal, "kerberos_keytab": keytab}
    missing = {f"{section}.{name}" for name, value in values.items() if value is None}
    if not missing:
        return
    daemon = "ResourceManager" if section == "proxy" else "NodeManager"
    norm = f"{section}.kerberos_principal: {principal_of(site)}, {section}.kerberos_keytab: {KEYTAB}"
    lacking = f"{' and '.join(sorted(missing))} {'is' if len(missing) == 1 else 'are'} not set"
    state = f"{WEB_TYPE}={site.text(WEB_TYPE)}, but {lacking}"
    why = f"the {section} cannot read the {daemon}'s REST: it knows neither nodes nor containers from there"
    remedy = setting(f"make the principal and its keytab, then set {norm}", section)
    yield finding("kerberos-login", facts.settings.place, state, norm, why, remedy, name=WEB_TYPE)


def _may_see(site: DoctorSite, principal: str) -> Iterator[Finding]:
    """Judge yarn.admin.acl: users by commas, a blank, groups by commas; the ResourceManager's own user is one."""
    own = principal.partition("@")[0].partition("/")[0]
    acl = site.text(_ADMINS)
    if not site.flag("yarn.acl.enable") or "*" in acl:
        return
    raw = site.conf.properties[_ADMINS].value if _ADMINS in site.conf.properties else acl
    users, _, groups = raw.rstrip().partition(" ")
    master = site.text("yarn.resourcemanager.principal").partition("@")[0].partition("/")[0]
    if own in [user.strip() for user in users.split(",")] or own == master:
        return
    value = f"{','.join([*filter(None, [users]), own])}{' ' if groups else ''}{groups.strip()}"
    why = "the proxy does not see when an application started, nor its asks, which it reads after a restart"
    severity = Severity.NOTE if groups.strip() else None
    norm = f"{own} among the users{', unless it is in one of the groups' if groups.strip() else ''}"
    yield must_be(site, "kerberos-acl", _ADMINS, value, why, norm=norm, severity=severity)


def _web_server(site: DoctorSite) -> Iterator[Finding]:
    principal = site.text(WEB_PRINCIPAL)
    if _HOST not in principal or not is_loopback(site.text(BIND)):
        return
    why = (
        f"on loopback {_HOST} becomes 127.0.0.1, which no keytab has: the node's pages and the sidecar's view of it "
        "break"
    )
    norm = f"{WEB_PRINCIPAL}=*, or HTTP/ with the node's name"
    state = text_of(site, WEB_PRINCIPAL)
    yield must_be(site, "kerberos-nm-web", WEB_PRINCIPAL, "*", why, state=state, norm=norm, file="core-site.xml")
