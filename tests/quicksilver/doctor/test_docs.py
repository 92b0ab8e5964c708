"""The page and the code say the same."""

from __future__ import annotations

import re

from quicksilver.doctor.cli import doctor
from quicksilver.doctor.codes import CODES
from quicksilver.doctor.install_cli import install_command, uninstall_command
from tests.paths import DOCS, ROOT

PAGE = (DOCS / "doctor.md").read_text()


def test_the_table_has_all_codes_with_their_severity_and_meaning() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (note|warning|error) \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [(code, severity.name.lower(), meaning) for code, (severity, meaning) in CODES.items()]


def test_each_code_is_used_by_a_check() -> None:
    checks = "".join(file.read_text() for file in (ROOT / "quicksilver" / "doctor" / "checks").glob("*.py"))
    assert [code for code in CODES if f'"{code}"' not in checks] == []


def test_each_option_is_there() -> None:
    for command in (doctor, install_command, uninstall_command):
        for option in command.params:
            assert f"--{option.opts[0].removeprefix('--')}" in PAGE
