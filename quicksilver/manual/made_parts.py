"""Parts of pages that are made of the code: each stands between two comments."""

from __future__ import annotations


def with_part(page: str, begin: str, text: str, end: str) -> str:
    """Return a page with `text` between the lines `begin` and `end`. Raises ValueError when it has not both."""
    before, first, rest = page.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise ValueError(f"the page has no lines {begin.strip()} and {end.strip()}; add them")
    return f"{before}{begin}{text}{end}{after}"
