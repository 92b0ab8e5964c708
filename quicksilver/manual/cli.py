"""`quicksilver help`, `quicksilver man` and `quicksilver completion`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Final

import click
from click.shell_completion import get_completion_class

from quicksilver.common.command_line.groups import Command
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.version import version
from quicksilver.manual.pages import ManualPage, NoSuchTopicError, find_page, title_of, topics
from quicksilver.manual.roff import manual

_NAME: Final = "quicksilver"
_VARIABLE: Final = "_QUICKSILVER_COMPLETE"
_SHELLS: Final = {
    "bash": 'in ~/.bashrc: eval "$(quicksilver completion bash)"; for all users: in /etc/bash_completion.d',
    "zsh": 'in ~/.zshrc, after compinit: eval "$(quicksilver completion zsh)"',
    "fish": "in ~/.config/fish/completions/quicksilver.fish",
}


@click.command("help", cls=Command)
@click.argument("topic", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the topics, or title and text of one.")
def help_command(topic: tuple[str, ...], as_json: bool) -> None:
    """Show a page of the documentation: TOPIC is its name (security), `docs/security.md`, or `operations#store`.

    Without a TOPIC: list the pages. The words of a command (`node list`) show its help. The pages are installed with
    the program; no network is needed.
    """
    if not topic:
        _list(as_json)
        return
    try:
        page = find_page(" ".join(topic))
    except NoSuchTopicError:
        if not _command_help(topic):
            raise
        return
    if as_json:
        click.echo(json.dumps({"topic": page.topic, "title": page.title, "text": page.text}, indent=2))
    else:
        _print(page)


@click.command("man", cls=Command)
def man() -> None:
    """Print the manual page quicksilver(1) as roff: `quicksilver man | man -l -`."""
    from quicksilver.cli import COMMANDS, cli, is_installed  # the program imports this module by its name

    assert isinstance(cli, click.Group)
    sections: dict[str, list[str]] = {}
    for name, lazy in COMMANDS.items():
        if is_installed(name):
            sections.setdefault(lazy.section, []).append(name)
    click.echo(manual(cli, sections, _NAME, version()), nl=False)


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def completion(shell: str) -> None:
    """Print the script that completes commands and options in SHELL.

    \b
    bash: eval "$(quicksilver completion bash)"     in ~/.bashrc
    zsh:  eval "$(quicksilver completion zsh)"      in ~/.zshrc, after compinit
    fish: quicksilver completion fish > ~/.config/fish/completions/quicksilver.fish
    """
    from quicksilver.cli import cli  # the program imports this module by its name

    shell_class = get_completion_class(shell)
    if shell_class is None:
        raise QuicksilverError(f"click completes nothing in {shell}", remedy="install a newer click")
    click.echo(f"# {_SHELLS[shell]}")
    click.echo(shell_class(cli, {}, _NAME, _VARIABLE).source())


def _list(as_json: bool) -> None:
    titles = {topic: title_of(path.read_text("utf-8")) for topic, path in topics().items()}
    if as_json:
        click.echo(json.dumps(titles, indent=2))
        return
    width = max(map(len, titles))
    for topic, title in titles.items():
        click.echo(f"{topic:<{width}}  {title}")


def _command_help(words: tuple[str, ...]) -> bool:
    """Print the help of a command; return whether there is one of these words."""
    from quicksilver.cli import cli  # the program imports this module by its name

    command: click.Command | None = cli
    ctx = click.Context(cli, info_name=_NAME, **cli.context_settings)
    for word in words:
        command = command.get_command(ctx, word) if isinstance(command, click.Group) else None
        if command is None:
            return False
        ctx = click.Context(command, info_name=word, parent=ctx)
    assert command is not None
    click.echo(command.get_help(ctx))
    return True


def _print(page: ManualPage) -> None:
    """Print a page: as it is into a pipe, rendered and by pages on a terminal."""
    if not sys.stdout.isatty():
        click.echo(page.text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    os.environ.setdefault("LESS", "-R")
    console = Console(width=min(100, shutil.get_terminal_size().columns))
    with console.pager(styles=True):
        console.print(Markdown(page.text))
