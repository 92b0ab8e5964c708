"""As whom the units run their daemons: what one of them keeps is nothing for another to read."""

from __future__ import annotations

import re

from tests.paths import ROOT

UNITS = sorted((ROOT / "hadoop-conf" / "systemd").glob("*.service"))


def settings(text: str, name: str) -> list[str]:
    """Return the values of a setting of a unit."""
    return re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)


def test_each_daemon_has_a_user_of_its_own() -> None:
    """The app server, which talks to users' masters, read the proxy's journal with the tokens of all applications."""
    users = {unit.stem: settings(unit.read_text(), "User") for unit in UNITS}
    assert users.pop("quicksilver-sidecar") == [], "root: the control groups are those of other users"
    assert users == {name: [name] for name in users} and len(users) == 3


def test_what_a_daemon_keeps_is_for_its_user_alone_and_none_has_more_rights_than_it_needs() -> None:
    for unit in UNITS:
        text = unit.read_text()
        assert settings(text, "StateDirectoryMode") == ["0700"] * len(settings(text, "StateDirectory")), unit.stem
        (rights,) = settings(text, "CapabilityBoundingSet")
        assert (rights == "") == (unit.stem != "quicksilver-sidecar"), unit.stem
