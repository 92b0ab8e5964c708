"""`quicksilver bench keep`: results that stay in the repository, so that figures can be checked and drawn again.

A kept result is compressed, names the commit that was measured, and says nothing of the machine's folders.
`python -m quicksilver_lab.bench.keep lab/docs/figures.md` writes the table of them anew; a test compares it.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from quicksilver.manual.made_parts import with_part
from quicksilver_lab.bench.page.pages import load, page_of

FIGURES: Final = Path("lab/figures")
"""Relative to the root of a checkout."""
SUFFIX: Final = ".json.xz"
COMMAND: Final = "python -m quicksilver_lab.bench.keep lab/docs/figures.md"
_BEGIN: Final = f"<!-- figures: made by `{COMMAND}` -->\n"
_END: Final = "<!-- end of figures -->\n"
_OF_THE_MACHINE: Final = ("--dir", "--results", "--base-port")
"""Options that change no figure."""


def kept(result: Mapping[str, Any], about: str) -> dict[str, Any]:
    """Return a result as it is kept. about: what it shows, one sentence.

    Raises ValueError for one that nobody can repeat: without a commit, or of a checkout that differed from it.
    """
    commit = result.get("commit", "")
    if not commit or commit.endswith("+"):
        state = f"files differed from commit {commit[:-1]}" if commit else "it names no commit"
        raise ValueError(f"{state}; measure in a clean checkout of a commit")
    page_of(result)
    return {**result, "argv": [*repeatable(result.get("argv", ()))], "about": about}


def repeatable(argv: Iterable[str]) -> Iterator[str]:
    """Yield the words of a command as anybody can repeat it, without the folders and ports of one machine."""
    words = iter(argv)
    program = Path(next(words, ""))
    if "quicksilver_lab" in program.parts:
        module = program.with_suffix("").parts[program.parts.index("quicksilver_lab") :]
        yield from ("python", "-m", ".".join(module))
    else:
        yield program.parent.name if program.name == "__main__.py" else program.name
    for word in words:
        if word in _OF_THE_MACHINE:
            next(words, "")
        elif word.partition("=")[0] not in _OF_THE_MACHINE:
            yield Path(word).name if word.startswith("/") else word


def write(path: Path, about: str, folder: Path) -> Path:
    """Keep the result of a file in `folder`; return the new file. Raises ValueError, OSError."""
    text = json.dumps(kept(load(path), about), separators=(",", ":"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{path.name.removesuffix(SUFFIX).removesuffix('.json')}{SUFFIX}"
    file.write_bytes(lzma.compress(text.encode(), preset=lzma.PRESET_EXTREME))
    return file


def files(folder: Path) -> list[Path]:
    """Return the kept results of a folder, by name."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def rows(folder: Path) -> Iterator[str]:
    """Yield the table of the kept results, each with a link to its file."""
    yield "| result | shows | commit | command |"
    yield "|---|---|---|---|"
    for file in files(folder):
        result, name = load(file), file.name.removesuffix(SUFFIX)
        command = " ".join(result["argv"])
        yield f"| [{name}](../figures/{file.name}) | {result['about']} | {result['commit']} | `{command}` |"


def with_table(page: str, folder: Path) -> str:
    """Return a page with the table as it is now. Raises ValueError when it has no place for it."""
    return with_part(page, _BEGIN, "".join(f"{row}\n" for row in rows(folder)), _END)


@click.command()
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--about", required=True, help="What it shows, one sentence.")
@click.option(
    "--figures", default=FIGURES, show_default=True, type=click.Path(file_okay=False, path_type=Path), help="Folder."
)
def main(result: Path, about: str, figures: Path) -> None:
    """Keep a benchmark's RESULT in the repository, compressed; it has to name a commit without changes."""
    try:
        file = write(result, about, figures)
    except ValueError as error:
        raise click.ClickException(f"{result}: {error}") from error
    click.echo(file)
    click.echo(f"now run {COMMAND}", err=True)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        page = Path(argument)
        page.write_text(with_table(page.read_text(), page.parents[1] / FIGURES.name))
