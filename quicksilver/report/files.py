"""Writes a page to a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from quicksilver.common.errors import QuicksilverError
from quicksilver.report.html import html
from quicksilver.report.model import Page, Plot, Prose, Section


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


def write_with_or_without_plots(page: Page, path: Path, again: str) -> str:
    """Write a page, without its plots where matplotlib is missing; return a warning then, otherwise "".

    again: as of `write`. Raises OSError.
    """
    try:
        write(page, path, again)
    except QuicksilverError as error:
        sections = [replace(one, blocks=[b for b in one.blocks if not isinstance(b, Plot)]) for one in page.sections]
        about = Section("Plots", [Prose(f"This page has no plots: {error.remedy}.")])
        write(replace(page, sections=[about, *(one for one in sections if one.blocks)]), path, again)
        return str(error)
    return ""
