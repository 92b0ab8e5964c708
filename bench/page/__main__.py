"""`python -m bench.page RESULT.json -o page.html`: a result's page, and its tables as Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from bench.page import honest, mercury, plain, scale
from bench.page.html import html
from bench.page.markdown import markdown
from bench.page.model import Page

READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Page]]] = {
    "honest": honest.read,
    "mercury": mercury.read,
    "scale": scale.read,
}
"""By a result's `benchmark`; all others are shown by `plain`."""


def page_of(result: Mapping[str, Any]) -> Page:
    """Return a result's page. Raises ValueError when something in it is not as its benchmark writes it."""
    try:
        return READERS.get(result.get("benchmark", ""), plain.read)(result)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{type(error).__name__}: {error}: not as bench-{result.get('benchmark')} writes it"
        ) from error


def write(result: Mapping[str, Any], path: Path) -> Path:
    """Write a result's page; return the path. Raises ValueError as `page_of`, OSError."""
    path.write_text(html(page_of(result)), encoding="utf-8")
    return path


@click.command()
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="[default: beside the result]")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the tables as Markdown too.")
def main(result: Path, output: Path | None, as_markdown: bool) -> None:
    """Make a page of a benchmark's RESULT: one HTML file that needs no network."""
    try:
        content = json.loads(result.read_text())
        if not isinstance(content, dict):
            raise ValueError("not an object")
        click.echo(write(content, output or result.with_suffix(".html")), err=as_markdown)
    except ValueError as error:
        raise click.ClickException(f"{result}: {error}; take a file that a benchmark wrote to bench/results") from error
    if as_markdown:
        click.echo(markdown(page_of(content)), nl=False)


if __name__ == "__main__":
    main()
