"""Reloads settings while a daemon runs, and opens and closes windows: completely, or not at all.

The file is read and checked in a thread; the loop then makes one assignment. A file with a mistake changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel

from policies.config.diff import Change, changes
from policies.config.notes import notes
from policies.config.policy_set import Policies
from policies.config.windows import Hours
from policies.errors import PolicyError
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.security import OPEN, SECTION, Security, SecuritySettings
from quicksilver.common.messages import ReloadAnswer, SettingChange
from quicksilver.common.process.audit_log import write_audit
from quicksilver.common.process.logs import get_logger
from quicksilver.common.settings.calendar import Calendar
from quicksilver.common.settings.settings_file import Settings, find_settings, read_settings, settings_warnings

log = get_logger(__name__)
How = Literal["start", "sighup", "rest", "command", "window"]
_STARTED: Final = "needs a restart, the old value stays"


class ReloadRefusedError(Exception):
    """The settings were not taken; nothing changed. A line for each mistake."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


@dataclass(frozen=True, slots=True)
class Audit:
    """A change of the settings in force, or a refused one, for the record; times are Unix seconds."""

    at_s: float
    author: str
    how: How
    before: str
    """Version."""
    after: str
    """Version; that of before when it was refused."""
    changes: tuple[Change, ...] = ()
    error: str = ""


class Reloader:
    """The settings of one daemon; `begin` once, then `tick` each second.

    `use` takes policies over in one go; it returns those that hold now, and what of the new ones cannot be taken over
    while the daemon runs, each with the reason.
    """

    def __init__(
        self,
        source: Path | None,
        section: tuple[str, BaseModel],
        policies: Policies,
        use: Callable[[Policies, float], tuple[Policies, list[str]]],
        audit: Callable[[Audit], None],
        security: Security = OPEN,
    ) -> None:
        """Prepare. `source`: the file that was read; `section`: the daemon's own, by name, which stays as it is.

        security: tokens and certificates, whose files are read anew too.
        """
        self.source, self._security = source, security
        self._section, self._use, self._audit = section, use, audit
        self.policies = policies
        """Those in force, with their windows."""
        self._calendar = Calendar(policies.windows, policies.time_zone)
        self._one_at_a_time = asyncio.Lock()
        self._blind = False
        """Whether the calendar failed last time."""

    @property
    def version(self) -> str:
        """The version of the settings in force."""
        return self.policies.version

    def begin(self, now_s: float) -> None:
        """Put the policies in force, with the windows that are open now, and record what they are."""
        self.policies, _ = self._use(self.policies.at(self._calendar.hours(now_s)), now_s)
        changed = changes({}, self.policies.describe())
        self._audit(Audit(now_s, process_user(), "start", "", self.version, tuple(changed)))
        write_audit("start", user=process_user(), target=str(self.source or ""), details={"version": self.version})

    def tick(self, now_s: float) -> None:
        """Open and close windows; to be called each second."""
        try:
            hours = self._calendar.hours(now_s)
        except (ValueError, LookupError, OverflowError, OSError) as error:
            hours = self.policies.hours
            if not self._blind:
                log.error("the calendar cannot be read: windows stay as they are", why=str(error))
            self._blind = True
        else:
            self._blind = False
        if hours == self.policies.hours:
            return
        before, was = self.version, self.policies.hours
        self.policies, refusals = self._use(self.policies.at(hours), now_s)
        for refusal in refusals:
            log.warning("a window cannot change all", kept=refusal)
        for coming in hours.coming:
            if coming not in was.coming:
                log.info("draining", ahead_of=str(coming), seconds=round(coming.at_s - now_s))
        if hours.open != was.open:
            log.info("windows", open=list(hours.open), before=list(was.open))
            self._audit(Audit(now_s, "calendar", "window", before, self.version, (_opened(was, hours),)))
            versions = {"version": self.version, "before": before}
            write_audit("window", user="calendar", target=",".join(hours.open), details=versions)

    async def check(self, file: str = "") -> ReloadAnswer:
        """Return what `reload` would change, and change nothing. Raises ReloadRefusedError with all mistakes."""
        path = self._path(file)
        try:
            settings = await self._read(path)
            warnings = await asyncio.to_thread(settings_warnings, path)
        except (QuicksilverError, PolicyError) as error:
            raise ReloadRefusedError(tuple(str(error).splitlines())) from error
        policies, _ = self._policies_now(settings, time.time())
        return self._answer(settings, policies, self.policies, [], warnings)

    async def _read(self, path: Path | None) -> Settings:
        models: dict[str, type[BaseModel]] = {self._section[0]: type(self._section[1]), SECTION: SecuritySettings}
        return await asyncio.to_thread(read_settings, path, models)

    async def reload(self, author: str, how: How, file: str = "", expect: str = "") -> ReloadAnswer:
        """Reload the settings and apply them. Raises ReloadRefusedError; then nothing changed.

        expect: digest of the settings that `check` showed; others are refused.
        """
        async with self._one_at_a_time:
            before, path = self.version, self.source
            try:
                path = self._path(file)
                settings = await self._read(path)
                if expect and settings.policies.digest != expect:
                    raise ReloadRefusedError((f"{settings.path}: changed since it was checked; check it again",))
                warnings = await asyncio.to_thread(settings_warnings, path)
                self._security.reload()
            except (QuicksilverError, ReloadRefusedError, PolicyError) as error:
                lines = tuple(str(error).splitlines())
                self._audit(Audit(time.time(), author, how, before, before, error="\n".join(lines)))
                self._audited(author, how, path, ok=False, description="; ".join(lines))
                log.error("the settings were not taken, the old ones stay", who=author, how=how, mistakes=lines)
                raise ReloadRefusedError(lines) from error
            return self._take(settings, warnings, author, how)

    def _audited(self, author: str, how: How, path: Path | None, *, ok: bool = True, **details: str) -> None:
        user, says = ("", author) if how in ("rest", "command") else (author, "")  # the call's own line has the caller
        write_audit("settings", user=user, target=str(path or ""), ok=ok, details={"says": says, "how": how, **details})

    def _path(self, file: str) -> Path | None:
        if not file:
            return self.source or find_settings()
        base = (self.source or Path("quicksilver.yaml")).resolve().parent
        path = Path(os.path.normpath(base / file))
        if path.parent != base:
            raise ReloadRefusedError((f"{file}: lies outside of {base}, from where settings are taken; put it there",))
        if path.suffix not in (".yaml", ".yml"):  # mistakes quote the file: none of tokens or keys
            raise ReloadRefusedError((f"{file}: is no settings file; name one that ends in .yaml",))
        return path

    def _policies_now(self, settings: Settings, now_s: float) -> tuple[Policies, Calendar]:
        """Return the file's policies with the windows that are open now."""
        policies = settings.policies.numbered(self.policies.number + 1)
        calendar = Calendar(policies.windows, policies.time_zone)
        return policies.at(calendar.hours(now_s)), calendar

    def _take(self, settings: Settings, warnings: list[str], author: str, how: How) -> ReloadAnswer:
        now_s = time.time()
        old = self.policies
        policies, calendar = self._policies_now(settings, now_s)
        new, refusals = self._use(policies, now_s)
        self.policies, self._calendar = new, calendar
        self.source = settings.path
        answer = self._answer(settings, new, old, refusals, warnings)
        changed = tuple(Change(change.path, change.before, change.after) for change in answer.changes)
        self._audit(Audit(now_s, author, how, old.version, new.version, changed))
        paths = ",".join(change.path for change in changed)
        self._audited(author, how, settings.path, version=new.version, before=old.version, changes=paths)
        log.info("settings taken", who=author, how=how, version=new.version, changes=len(changed), kept=refusals)
        return answer

    def _answer(
        self, settings: Settings, new: Policies, old: Policies, refusals: list[str], warnings: list[str]
    ) -> ReloadAnswer:
        return ReloadAnswer(
            file=str(settings.path or ""),
            version=new.version,
            before=old.version,
            digest=settings.policies.digest,
            changes=[
                SettingChange(path=c.path, before=c.before, after=c.after)
                for c in changes(old.describe(), new.describe())
            ],
            kept=[
                *refusals,
                *_stays(*self._section, settings.sections),
                *_stays(SECTION, self._security.settings, settings.sections),
            ],
            notes=notes(new),
            warnings=warnings,
        )


def _stays(name: str, section: BaseModel, sections: Mapping[str, BaseModel]) -> list[str]:
    """Return the daemon's own settings that the file has otherwise; without values, which may be secret."""
    changed = changes(section.model_dump(), sections[name].model_dump(), name)  # secrets too, by value
    return [f"{change.path} changed in the file: {_STARTED}" for change in changed]


def _opened(was: Hours, now: Hours) -> Change:
    return Change("policies.windows", json.dumps(was.open), json.dumps(now.open))


def on_hangup(loop: asyncio.AbstractEventLoop, reload: Callable[[str, How], Awaitable[object]]) -> None:
    """Reload the settings at each SIGHUP; a refusal is already logged and recorded then."""
    tasks: set[asyncio.Task[None]] = set()

    async def read_anew() -> None:
        with suppress(ReloadRefusedError):
            await reload(process_user(), "sighup")

    def hung_up() -> None:
        task = loop.create_task(read_anew())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGHUP, hung_up)


def process_user() -> str:
    """Return the user of the process, for the record."""
    return f"uid {os.geteuid()}"


def said_by(user: str, peer: str) -> str:
    """Return who gave a command, for the record: `user` is what the caller said, `peer` its address."""
    clean = re.sub(r"[^\w.@\\-]", "?", user)[:100]
    return f"{clean or 'unknown'}@{peer}"
