"""Writes a page to a file."""

from __future__ import annotations

from pathlib import Path

from quicksilver.report.html import html
from quicksilver.report.model import Page


def write(page: Page, path: Path) -> Path:
    """Write a page; return its path. Raises OSError."""
    path.write_text(html(page), encoding="utf-8")
    return path
