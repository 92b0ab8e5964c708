"""Which findings `quicksilver install` would mend: those that are gone from the picture that it would leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop import yarn_env
from quicksilver.common.hadoop.overlays import overlay_root
from quicksilver.common.hadoop.xml import Property
from quicksilver.doctor.install import PropertyChange, inside, install, installed, merged
from quicksilver.doctor.model import CLIENT, NM, RM, YARN_SITE, DoctorSite, Facts, Finding, Role
from quicksilver.doctor.node_size import node_name
from quicksilver.doctor.site_edit import layout

Key = tuple[str, str, str, Path | None]


@dataclass(frozen=True, slots=True)
class ByInstall:
    """Findings that `quicksilver install` mends in all their places, and the commands that do it."""

    findings: tuple[Finding, ...] = ()
    commands: tuple[str, ...] = ()


def by_install(facts: Facts, findings: Sequence[Finding], diagnose: Callable[[Facts], list[Finding]]) -> ByInstall:
    """Return which findings are gone once it is installed in the directories at hand. Changes no file."""
    roles = _roles(facts)
    changes = {directory: _changes(directory, own, facts) for directory, own in roles.items()}
    if not any(changes.values()):
        return ByInstall()
    rest = {key for finding in diagnose(_after(facts, changes)) for key in _keys(finding)}
    mended = tuple(finding for finding in findings if rest.isdisjoint(_keys(finding)))
    where = dict.fromkeys(place.directory for finding in mended for place in finding.places if place.directory in roles)
    commands = dict.fromkeys(_command(directory, roles[directory], facts) for directory in where if directory)
    return ByInstall(mended, tuple(commands))


def _keys(finding: Finding) -> list[Key]:
    return [(finding.code, finding.property, place.role, place.directory) for place in finding.places]


def _roles(facts: Facts) -> dict[Path, list[Role]]:
    """Return who reads which directory; a NodeManager's has what clients need."""
    roles: dict[Path, list[Role]] = {}
    for site in facts.sites:
        if site.from_files:
            roles.setdefault(site.conf.directory, []).append(site.role)
    return {
        directory: [role for role in (RM, NM, CLIENT) if role in own and not (role == CLIENT and NM in own)]
        for directory, own in roles.items()
    }


def _changes(directory: Path, roles: Sequence[Role], facts: Facts) -> list[PropertyChange]:
    """Return what installing would change; nothing where it would be refused."""
    before = installed(directory).roles
    host = next((site.host for site in facts.nms if site.conf.directory == directory), "")
    try:
        plan = merged(directory, [role for role in roles if role not in before], (), host, False)
        return install(directory, plan, overlay_root(), facts.settings)
    except SettingsError:
        return []  # install says why; what it would have set stays among the findings


def _after(facts: Facts, changes: Mapping[Path, list[PropertyChange]]) -> Facts:
    def as_installed(site: DoctorSite) -> DoctorSite:
        return _installed(site, changes.get(site.conf.directory, [])) if site.from_files else site

    return replace(
        facts,
        client=as_installed(facts.client) if facts.client else None,
        rms=tuple(map(as_installed, facts.rms)),
        nms=tuple(map(as_installed, facts.nms)),
    )


def _installed(site: DoctorSite, changes: Sequence[PropertyChange]) -> DoctorSite:
    properties, system = dict(site.conf.properties), site.conf.system
    for change in changes:
        if change.file.name == yarn_env.FILE and site.role == RM:
            system = yarn_env.rm_options((change.after or b"").decode(errors="replace"))
        elif change.after is not None and (change.file.name == YARN_SITE or site.role == RM):
            outline = layout(change.after, change.file)
            for name, element in outline.effective().items():
                if name in inside(outline):
                    properties[name] = Property(name, element.value, element.final, change.file, element.line)
    return replace(site, conf=replace(site.conf, properties=properties, system=system))


def _command(directory: Path, roles: Sequence[Role], facts: Facts) -> str:
    nameless = any(site.conf.directory == directory and not node_name(site.conf) for site in facts.nms)
    words = [f"--role {role}" for role in roles] + (["--host NAME"] if nameless else [])
    return f"quicksilver install {' '.join(words)}"
