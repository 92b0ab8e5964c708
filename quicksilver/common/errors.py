"""The base of all errors that end in one line for the user, without a traceback."""

from __future__ import annotations


class QuicksilverError(Exception):
    """Something that a user can understand and mend: where, what, and what to do now.

    `place` is a file with its line, a setting, an address; `remedy` starts with a verb.
    """

    retriable: bool = False
    """Whether the same call may succeed later although nobody mends anything."""

    def __init__(self, what: str, *, place: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.place, self.remedy = what, place, remedy

    def __str__(self) -> str:
        text = f"{self.place}: {self.what}" if self.place else self.what
        return f"{text}; {self.remedy}" if self.remedy else text


class SettingsError(QuicksilverError):
    """A setting is missing, misspelt or out of range."""
