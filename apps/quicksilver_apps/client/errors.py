"""Errors of submitting and watching applications; each ends a command in one line."""

from __future__ import annotations

from quicksilver.common.errors import QuicksilverError


class ClientError(QuicksilverError):
    """An application cannot be submitted, found or changed; the text says where, why, and what to do."""


class SubmissionRefusedError(ClientError):
    """The ResourceManager, or HDFS, does not take the application; the text is its reason."""


class NotRunningError(ClientError):
    """The application's master cannot be asked: it has not begun yet, or the application has ended."""
