"""All checks over one picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from quicksilver.doctor import (
    checks_client,
    checks_kerberos,
    checks_live,
    checks_machine,
    checks_nm,
    checks_rm,
    checks_settings,
)
from quicksilver.doctor.model import Facts, Finding, merged

CHECKS: Final[tuple[Callable[[Facts], Iterator[Finding]], ...]] = (
    checks_settings.check,
    checks_rm.check,
    checks_nm.check,
    checks_client.check,
    checks_kerberos.check,
    checks_live.check,
    checks_machine.check,
)


def diagnose(facts: Facts) -> list[Finding]:
    """Return all findings, errors first, those that differ in their places only joined."""
    return merged(finding for check in CHECKS for finding in check(facts))
