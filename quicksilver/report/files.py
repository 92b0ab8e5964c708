"""Writes a page to a file."""

from __future__ import annotations

from pathlib import Path

from quicksilver.common.errors import QuicksilverError
from quicksilver.report.html import html
from quicksilver.report.model import Page


def write(page: Page, path: Path, again: str) -> Path:
    """Write a page; return its path.

    again: the command that makes the page once more, for the remedy. Raises OSError, QuicksilverError where matplotlib
    is missing.
    """
    try:
        text = html(page)
    except ModuleNotFoundError as error:
        remedy = f"run pip install 'yarn-quicksilver[plots]', then {again}"
        raise QuicksilverError(f"no plots without {error.name}", place=str(path), remedy=remedy) from error
    path.write_text(text, encoding="utf-8")
    return path
