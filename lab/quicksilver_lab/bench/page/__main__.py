"""`python -m quicksilver_lab.bench.page RESULT.json -o page.html`: a result's page, and its tables as Markdown."""

from __future__ import annotations

from pathlib import Path

import click

from quicksilver.report import files
from quicksilver_lab.bench.page.pages import html_beside, load, page_of
from quicksilver_lab.markdown import markdown


@click.command()
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="[default: beside the result]")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the tables as Markdown too.")
def main(result: Path, output: Path | None, as_markdown: bool) -> None:
    """Make a page of a benchmark's RESULT: one HTML file that needs no network."""
    try:
        page = page_of(load(result))
    except ValueError as error:
        raise click.ClickException(
            f"{result}: {error}; take a file that a benchmark wrote to ./bench/results"
        ) from error
    click.echo(files.write(page, output or html_beside(result)), err=as_markdown)
    if as_markdown:
        click.echo(markdown(page), nl=False)


if __name__ == "__main__":
    main()
