"""Settings read anew: all or nothing, what changed from what, one at a time, windows."""

import asyncio
from collections.abc import Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from policies.config.diff import Change, changes
from policies.config.policy_set import Policies
from quicksilver.common.settings.reload import Audit, Reloader, ReloadRefusedError, said_by
from quicksilver.common.settings.settings_file import load_settings
from rm_proxy.config import ProxySettings

ONE = "policies:\n  queues: [root.a]\n  routes: [{policy: only_q}]\n"
TWO = "policies:\n  queues: [root.a, root.b]\n  routes: [{policy: only_g}]\n"
BAD = "policies:\n  queus: []\n  place: {policy: topk}\nproxy: {round_s: soon}\n"
NIGHT = ONE + (
    "  time_zone: UTC\n  alternatives: {night: {routes: [{policy: only_g}]}}\n"
    "  windows: [{name: night, cron: '0 20 * * *', length_s: 3600, drain_s: 600, use: night}]\n"
)


class Daemon:
    """Takes everything over but the place policy, when it is told so."""

    def __init__(self, folder: Path, text: str = ONE) -> None:
        self.path = folder / "quicksilver.yaml"
        self.path.write_text(text)
        file = load_settings(self.path)
        settings = file.section("proxy", ProxySettings)
        self.used: list[Policies] = []
        self.audits: list[Audit] = []
        self.keeps = False
        self.settings = Reloader(self.path, ("proxy", settings), file.policies(), self._use, self.audits.append)
        self.settings.begin(0.0)

    def _use(self, policies: Policies, now_s: float) -> tuple[Policies, list[str]]:
        if self.keeps:
            policies = policies.keeping("place", self.used[-1])
        self.used.append(policies)
        return policies, ["policies.place stays"] if self.keeps else []

    def reload(self, text: str, file: str = "") -> Any:
        self.path.write_text(text)
        return run(self.settings.reload("ann@10.0.0.1", "command", file))


def run(job: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(job)


def test_what_changed_is_told_and_recorded(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    answer = daemon.reload(TWO)
    assert answer.before.startswith("1-") and answer.version.startswith("2-")
    assert daemon.used[-1].version == answer.version == daemon.settings.version
    changed = {(c.path, c.before, c.after) for c in answer.changes}
    assert changed >= {
        ("policies.queues", '["root.a"]', '["root.a", "root.b"]'),
        ("policies.routes[0].policy", '"only_q"', '"only_g"'),
    }
    audit = daemon.audits[-1]
    assert (audit.author, audit.how, audit.before, audit.after) == (
        "ann@10.0.0.1",
        "command",
        answer.before,
        answer.version,
    )
    assert [c.path for c in audit.changes] == [c.path for c in answer.changes]
    assert daemon.audits[0].how == "start" and daemon.audits[0].before == ""


def test_a_bad_file_changes_nothing_and_all_mistakes_are_told(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    version, used = daemon.settings.version, len(daemon.used)
    with pytest.raises(ReloadRefusedError) as caught:
        daemon.reload(BAD)
    assert [line.split(": ")[0].removeprefix(f"{daemon.path}:") for line in caught.value.lines] == [
        "2:3",
        "3:19",
        "4:18",
    ]
    assert (daemon.settings.version, len(daemon.used)) == (version, used)
    assert daemon.audits[-1].error.count("\n") == 2 and daemon.audits[-1].after == version
    assert daemon.reload(TWO).before == version


def test_a_check_says_what_a_reload_would_change_and_changes_nothing(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    before = daemon.settings.version, len(daemon.used), len(daemon.audits)
    daemon.path.write_text(TWO)
    seen = run(daemon.settings.check())
    daemon.path.write_text(BAD)
    with pytest.raises(ReloadRefusedError) as caught:
        run(daemon.settings.check())
    assert len(caught.value.lines) == 3
    for file in ("../other.yaml", "tokens"):
        with pytest.raises(ReloadRefusedError):
            run(daemon.settings.check(file))
    assert (daemon.settings.version, len(daemon.used), len(daemon.audits)) == before
    answer = daemon.reload(TWO)
    assert (seen.changes, seen.version, seen.before) == (answer.changes, answer.version, answer.before)


def test_a_file_that_changed_after_its_check_is_refused(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.path.write_text(TWO)
    digest = run(daemon.settings.check()).digest
    daemon.path.write_text(NIGHT)
    with pytest.raises(ReloadRefusedError, match="changed since it was checked"):
        run(daemon.settings.reload("ann", "rest", expect=digest))
    assert len(daemon.used) == 1
    daemon.path.write_text(TWO + "# a remark\n")
    assert run(daemon.settings.reload("ann", "rest", expect=digest)).digest == digest
    assert len(daemon.used) == 2


@pytest.mark.parametrize("text", ["policies: [", "\x00", "policies: {routes: 7}", "a: b", "- 1", "policies: &a [*a]"])
def test_what_is_no_settings_file_is_refused(tmp_path: Path, text: str) -> None:
    daemon = Daemon(tmp_path)
    with pytest.raises(ReloadRefusedError):
        daemon.reload(text)
    assert len(daemon.used) == 1
    daemon.path.unlink()
    with pytest.raises(ReloadRefusedError, match="No such file"):
        run(daemon.settings.reload("ann", "rest"))


def test_another_file_only_from_the_same_directory(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    (tmp_path / "night.yaml").write_text(TWO)
    assert daemon.reload(ONE, "night.yaml").file == str(tmp_path / "night.yaml")
    for file in ("../night.yaml", "/etc/passwd", "sub/night.yaml"):
        with pytest.raises(ReloadRefusedError, match="lies outside of"):
            daemon.reload(ONE, file)


def test_what_needs_a_restart_is_named_and_stays(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.keeps = True
    answer = daemon.reload(TWO.replace("  routes", "  place: {policy: random}\n  routes") + "proxy: {round_s: 2.0}\n")
    assert answer.kept == [
        "policies.place stays",
        "proxy.round_s changed in the file: needs a restart, the old value stays",
    ]
    assert daemon.settings.policies.policy_name("place") == "topk_wait"
    assert not [c for c in answer.changes if c.path.startswith("policies.place")]


def test_reloads_at_the_same_time_follow_each_other(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)

    async def many() -> list[Any]:
        return await asyncio.gather(*(daemon.settings.reload(f"u{n}", "rest") for n in range(10)))

    answers = run(many())
    assert [int(answer.version.split("-")[0]) for answer in answers] == list(range(2, 12))
    assert all(one.version == after.before for one, after in pairwise(answers))


def test_windows_open_and_close_on_their_own_and_are_recorded(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, NIGHT)
    eight = 20 * 3600.0
    for now_s in (eight - 700, eight - 500, eight - 499, eight, eight + 1, eight + 3600):
        daemon.settings.tick(now_s)
    assert [used.hours.open for used in daemon.used] == [(), (), ("night",), ()]
    assert [(a.how, a.after.partition("+")[2]) for a in daemon.audits] == [
        ("start", ""),
        ("window", "night"),
        ("window", ""),
    ]
    assert daemon.audits[1].changes == (Change("policies.windows", "[]", '["night"]'),)


def test_windows_stay_as_they_are_when_the_calendar_fails(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, NIGHT)
    daemon.settings.tick(20 * 3600.0)
    for now_s in (float("nan"), float("inf"), 1e300):
        daemon.settings.tick(now_s)
    assert daemon.settings.policies.hours.open == ("night",)
    daemon.settings.tick(21 * 3600.0)
    assert daemon.settings.policies.hours.open == ()


def test_who_said_so() -> None:
    assert said_by("ann", "10.0.0.1") == "ann@10.0.0.1"
    assert said_by("", "::1") == "unknown@::1"
    assert said_by("a b\n<c>" * 99, "x").startswith("a?b??c?") and len(said_by("a" * 999, "x")) == 102


def test_changes_of_descriptions() -> None:
    before = {"a": 1, "b": [1, {"c": 2}], "d": None, "g": True}
    after = {"a": 1, "b": [1, {"c": 3}], "e": [], "g": 1}
    assert changes(before, after) == [
        Change("policies.b[1].c", "2", "3"),
        Change("policies.d", "null", ""),
        Change("policies.g", "true", "1"),
        Change("policies.e", "", "[]"),
    ]
    assert len(changes({}, {str(n): n for n in range(2000)})) == 500
    assert len(changes("", "x" * 9000)[0].after) == 2000
