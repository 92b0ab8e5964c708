"""The fenced blocks of the pages, and what is checked of commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import click

from quicksilver.cli import cli
from tests.paths import ROOT

_FENCE: Final = re.compile(r"^( *)```([^\n`]*)$")
_ATTRIBUTE: Final = re.compile(r'(\w+)="([^"]*)"')
_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_COMMAND: Final = re.compile(r"(?<![\w./:-])quicksilver((?: +(?:\"[^\"]*\"|'[^']*'|[^\s|;&()<>\"'`]+))+)")
_REDIRECT: Final = re.compile(r"\s\d?>+&?\s*\S+")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    """The line of its fence, from 1."""
    kind: str
    attributes: dict[str, str]
    text: str
    after: str
    """The kind of the block before it; "" for the first of a page."""

    @property
    def place(self) -> str:
        """Where it is, as tests name it."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page in their order, without their indentation."""
    lines, after, at = page.read_text().splitlines(), "", 0
    while at < len(lines):
        opened = _FENCE.match(lines[at])
        if opened is None:
            at += 1
            continue
        begin, indent = at, len(opened[1])
        at += 1
        while lines[at].strip() != "```":
            at += 1
        kind = opened[2].split(" ")[0]
        text = "\n".join(line[indent:] for line in lines[begin + 1 : at]) + "\n"
        attributes = dict(_ATTRIBUTE.findall(opened[2])) | dict.fromkeys(_hints(lines, begin), "")
        yield Block(page, begin + 1, kind, attributes, text, after)
        after, at = kind, at + 1


def _hints(lines: list[str], fence: int) -> list[str]:
    """Return the words of a comment `<!-- test: ... -->` right above a fence."""
    found = re.search(r"<!-- test: (.*) -->", "".join(lines[max(fence - 1, 0) : fence]))
    return found[1].split() if found else []


def shell_text(block: Block) -> str:
    """Return the commands of a block, those of a `console` without their prompts and outputs."""
    if block.kind != "console":
        return block.text
    text = re.sub(r"\\\n\s+", " ", block.text)
    return "\n".join(line[2:] for line in text.splitlines() if line.startswith("$ ")) + "\n"


def command_lines(text: str) -> list[str]:
    """Return the lines of shell text without comments, continued ones joined."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [bare for line in joined.splitlines() if (bare := re.sub(r"(^|\s+)#.*$", "", line).strip())]


def quicksilver_calls(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of `quicksilver` in shell text, also of those inside quotes."""
    for line in command_lines(text):
        plain = _REDIRECT.sub("", line)
        for part in (plain, *(quoted[0][1:-1] for quoted in _QUOTED.finditer(plain))):
            for found in _COMMAND.finditer(part):
                yield shlex.split(found[1])


def parse(args: list[str]) -> None:
    """Have the program parse a command line without running it; files that are not here are no mistake.

    Raises click.UsageError for a command, an option or a value that there is not.
    """
    command: click.Command = cli
    context, left = click.Context(cli, info_name="quicksilver"), list(args)
    while isinstance(command, click.Group) and left and not left[0].startswith("-"):
        name, command_of = left.pop(0), command
        found = command_of.get_command(context, name)
        if found is None:
            raise click.UsageError(f"no command {name!r} in {command_of.name}")
        command = found
    try:
        command.make_context(command.name, left, parent=context).close()
    except click.BadParameter as error:
        if "does not exist" not in error.message and "No such file" not in error.message:
            raise
    except click.exceptions.Exit:
        pass  # --version and the like


@cache
def make_targets() -> dict[str, str]:
    """Return the Makefile's targets, each with the module that its recipe runs, or ""."""
    found = {}
    for rule in re.finditer(r"^([a-z][\w-]*):[^\n]*\n((?:\t.*\n)*)", (ROOT / "Makefile").read_text(), re.MULTILINE):
        module = re.search(r"-m ((?:quicksilver(?:_lab)?|deploy)\.[\w.]+) [^\n]*\$\(ARGS\)", rule[2])
        found[rule[1]] = module[1] if module else ""
    return found


@cache
def options_of(module: str) -> frozenset[str]:
    """Return the options that the source of a module's folder, or of the module itself, names."""
    tree = ROOT / "lab" if module.startswith("quicksilver_lab.") else ROOT
    path = tree / module.replace(".", "/")
    files = [*path.rglob("*.py"), *path.parent.glob("*.py")]
    own = [path.with_suffix(".py")] if path.with_suffix(".py").exists() else []
    return frozenset(re.findall(r"\"(--[a-z][\w-]*)", "\n".join(file.read_text() for file in {*files, *own})))


def shape(line: str) -> re.Pattern[str]:
    """Return what a line of a documented output stands for: any number, any blanks, `...` for anything."""
    pattern = re.escape(line.strip()).replace(r"\.\.\.", ".*")
    pattern = re.sub(r"\d+", r"\\d+", pattern)
    return re.compile(re.sub(r"(\\ )+", r"\\s+", pattern))


def missing(expected: str, actual: str) -> list[str]:
    """Return the lines of a documented output whose shape no line of the real one has."""
    lines = actual.splitlines()
    return [line for line in expected.splitlines() if not any(shape(line).search(each) for each in lines)]
