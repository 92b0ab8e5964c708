"""All checks over one picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from quicksilver.doctor.checks import client, kerberos, live, machine, nm, rm, settings
from quicksilver.doctor.model import Facts, Finding, merged

CHECKS: Final[tuple[Callable[[Facts], Iterator[Finding]], ...]] = (
    settings.check,
    rm.check,
    nm.check,
    client.check,
    kerberos.check,
    live.check,
    machine.check,
)


def diagnose(facts: Facts) -> list[Finding]:
    """Return all findings, errors first, those that differ in their places only joined."""
    return merged(finding for check in CHECKS for finding in check(facts))
