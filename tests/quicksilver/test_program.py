"""The program's commands: groups and whole lines in its help, and guesses at mistyped names."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner, Result

from quicksilver.cli import COMMANDS, cli


def call(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), prog_name="quicksilver")


def commands(group: click.Group, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield all commands below a group with their paths."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None, name
        inner = click.Context(command, info_name=name, parent=ctx)
        yield inner.command_path, command
        if isinstance(command, click.Group):
            yield from commands(command, inner)


def test_help_has_the_commands_in_groups_without_cutting_a_line() -> None:
    text = call("--help").output
    sections = list(dict.fromkeys(lazy.section for lazy in COMMANDS.values()))
    assert len(sections) == 6 and [text.index(f"\n{section}:\n") for section in sections]
    assert "..." not in text.partition("Options:")[2]
    for name, lazy in COMMANDS.items():
        assert f"\n  {name} " in text and f"{lazy.help}\n" in text


def test_no_help_of_any_command_is_cut() -> None:
    assert isinstance(cli, click.Group)
    seen = dict(commands(cli, click.Context(cli, info_name="quicksilver")))
    assert len(seen) > 80
    for path, command in seen.items():
        if isinstance(command, click.Group):
            text = call(*path.split()[1:], "--help").output
            shown = " ".join(text.partition("Commands:")[2].split())
            assert shown and "..." not in shown.replace(" ...", ""), path


def test_options_of_the_connection_stand_apart_at_the_end() -> None:
    for words in (("node", "list"), ("explain",), ("policy", "reload"), ("top",)):
        text = call(*words, "--help").output
        own, _, connection = text.partition("Connection:\n")
        assert "--url" in connection and "--token-file" in connection and "--ca " in connection, words
        assert "\n  --url" not in own and len(connection.splitlines()) <= 6


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("polcy", "check"), "no command 'polcy'; did you mean `quicksilver policy` or"),
        (("policy", "chek"), "no command 'chek'; did you mean `quicksilver policy check` or"),
        (("node", "lst"), "did you mean `quicksilver node list`?"),
        (("certs", "tokne"), "did you mean `quicksilver certs token`?"),
        (("cluster", "restart"), "or `quicksilver cluster restart-yarn`"),
        (("bench", "relya"), "did you mean `quicksilver bench relay`"),
        (("trace", "genrate"), "did you mean `quicksilver trace generate`"),
        (("sidecar", "rum"), "did you mean `quicksilver sidecar run`?"),
        (("Node", "list"), "did you mean `quicksilver node`"),
        (("status",), "did you mean `quicksilver health`?"),
        (("jobs",), "did you mean `quicksilver app list`?"),
        (("xyzzy",), "no command 'xyzzy'; `quicksilver --help` lists the commands"),
        (("node", "xyzzy"), "no command 'xyzzy'; `quicksilver node --help` lists the commands"),
        (("node", "list", "--jsn"), "No such option '--jsn'. Did you mean '--json'?"),
        (("node", "list", "--colums", "id"), "Did you mean '--columns'?"),
        (("--verson",), "Did you mean '--version'?"),
    ],
)
def test_a_mistyped_name_is_guessed(arguments: tuple[str, ...], meant: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2 and meant in result.stderr, result.stderr


def test_what_is_typed_by_habit_leads_to_a_command_that_exists() -> None:
    from quicksilver.cli import _BY_HABIT

    for typed, meant in _BY_HABIT.items():
        assert typed not in COMMANDS
        if meant not in ("--version", "help settings"):
            assert call(*meant.split(), "--help").exit_code == 0, meant
