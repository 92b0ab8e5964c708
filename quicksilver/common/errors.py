"""The base of all errors that end in one line for the user, without a traceback."""

from __future__ import annotations


class QuicksilverError(Exception):
    """Something that a user can understand and mend: where, what, and what to do now.

    `place` is a file with its line, a setting, an address; `remedy` starts with a verb.
    """

    retriable: bool = False
    """Whether the same call may succeed later although nobody mends anything."""

    def __init__(self, message: str, *, place: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.message, self.place, self.remedy = message, place, remedy

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text}; {self.remedy}" if self.remedy else text


class SettingsError(QuicksilverError):
    """A setting is missing, misspelt or out of range."""
