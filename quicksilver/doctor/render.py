"""What was found, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from quicksilver.doctor.by_install import ByInstall
from quicksilver.doctor.model import DoctorPlace, Finding, Severity, Unchecked

_NOTHING: Final = ByInstall()
_PLACES: Final = 3
_INDENT: Final = " " * 9


def report(
    findings: Sequence[Finding],
    unchecked: Sequence[Unchecked],
    mended: ByInstall = _NOTHING,
    *,
    verbose: bool = False,
) -> str:
    """Return all as text: errors first, then what was not checked, then one line that sums up.

    mended: what `quicksilver install` sets is one line on top, unless `verbose`.
    """
    blocks = [_set_by_install(findings, mended, verbose)] if mended.findings else []
    blocks += [_block(finding) for finding in findings if verbose or finding not in mended.findings]
    if unchecked:
        blocks.append("\n".join(["not checked", *(f"  {item}" for item in unchecked)]))
    return "\n\n".join([*blocks, summary(findings, unchecked)])


def _set_by_install(findings: Sequence[Finding], mended: ByInstall, verbose: bool) -> str:
    """Return the line that says how many findings are only that nothing is installed yet."""
    all_of, of = Counter(item.severity for item in findings), Counter(item.severity for item in mended.findings)
    parts = [f"{of[each]} of {_many(all_of[each], each.name.lower())}" for each in reversed(Severity) if of[each]]
    commands = " and ".join(f"`{command}`" for command in mended.commands)
    codes = ", ".join(dict.fromkeys(finding.code for finding in mended.findings))
    return f"{', '.join(parts)}: {commands} sets {codes}" + ("" if verbose else " (-v: details)")


def _block(finding: Finding) -> str:
    lines = [f"{finding.severity.name.lower()} {finding.code}: {finding.state}"]
    lines.append(f"  where  {_places(finding.places)}")
    lines.append(f"  should {finding.norm}")
    lines.append(f"  why    {finding.why}")
    remedy = finding.remedy
    if remedy.remove:
        lines.append(f"  do     take out of {remedy.file}: {', '.join(remedy.remove)}")
    if remedy.xml:
        lines.append(f"  do     put into {remedy.file}, in place of the properties of the same name:")
        lines += [f"{_INDENT}{line}" for line in remedy.xml.splitlines()]
    if remedy.text:
        lines.append(f"  do     {remedy.text}")
    if remedy.restart:
        lines.append(f"  then   restart: {remedy.restart}")
    return "\n".join(lines)


def _places(places: Sequence[DoctorPlace]) -> str:
    text = ", ".join(str(place) for place in places[:_PLACES])
    return f"{text} and {len(places) - _PLACES} more" if len(places) > _PLACES else text


def summary(findings: Sequence[Finding], unchecked: Sequence[Unchecked]) -> str:
    """Return one line: how many of each, and whether that is clean."""
    counts = Counter(finding.severity for finding in findings)
    parts = [_many(counts[severity], severity.name.lower()) for severity in reversed(Severity)]
    text = ", ".join(parts) + f"; {_many(len(unchecked), 'thing')} not checked"
    return f"{'not clean' if any(f.severity is not Severity.NOTE for f in findings) else 'clean'}: {text}"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def as_data(
    findings: Sequence[Finding], unchecked: Sequence[Unchecked], mended: ByInstall = _NOTHING
) -> dict[str, Any]:
    """Return all for --json; keys are only ever added."""
    counts = Counter(finding.severity.name.lower() for finding in findings)
    return {
        "format": 1,
        "findings": [{**finding.data(), "set_by_install": finding in mended.findings} for finding in findings],
        "install": list(mended.commands),
        "not_checked": [{"what": item.subject, "why": item.why, "remedy": item.remedy} for item in unchecked],
        "counts": {severity.name.lower(): counts[severity.name.lower()] for severity in Severity},
        "summary": summary(findings, unchecked),
    }
