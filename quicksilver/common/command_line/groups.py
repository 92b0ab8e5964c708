"""Groups and commands with whole help lines, options in sections, and a guess at mistyped names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

MORE_THAN_A_SENTENCE: Final = 500
"""Characters of a short help: click cuts it there, and ends it at the first sentence before."""


class SectionOption(click.Option):
    """An option that `--help` shows below a heading of its own."""

    def __init__(self, *arguments: Any, section: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.section = section


class Command(click.Command):
    """A command whose options stand in sections: its own ones first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section."""
        write_options(self, ctx, formatter)


class CommandGroup(click.Group):
    """A group that lists whole sentences, and guesses what a mistyped command was to be."""

    command_class = Command
    group_class = type
    others: Mapping[str, str] = {}
    """Commands that people type by habit, with what does the same here."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section, then the commands."""
        write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line for each command, wrapped where it is long."""
        shown = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        lines = [
            (name, command.get_short_help_str(MORE_THAN_A_SENTENCE))
            for name, command in shown
            if command is not None and not command.hidden
        ]
        if lines:
            with formatter.section("Commands"):
                formatter.write_dl(lines)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command. Raises UsageError with the likely ones when there is none of this name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            name, known = args[0], self.list_commands(ctx)
            if name.startswith("-") or name in known:
                raise
            raise click.UsageError(self._unknown(name, known, ctx), ctx) from error

    def _unknown(self, name: str, known: list[str], ctx: click.Context) -> str:
        from difflib import get_close_matches  # only for a mistake: every command would load it

        path = ctx.command_path
        likely = [f"{path} {match}" for match in get_close_matches(name.lower(), known, n=3, cutoff=0.6)]
        alias = self.others.get(name.lower())
        if alias is not None:
            likely = [f"{path} {alias}", *(command for command in likely if command != f"{path} {alias}")]
        if likely:
            return f"no command '{name}'; did you mean {' or '.join(f'`{command}`' for command in likely)}?"
        return f"no command '{name}'; `{path} --help` lists the commands"


def help_record(parameter: click.Parameter, ctx: click.Context) -> tuple[str, str] | None:
    """Return a parameter's name and meaning; None for an argument without help: the usage line has it."""
    record = parameter.get_help_record(ctx)
    return record if record is not None and (record[1] or isinstance(parameter, click.Option)) else None


def write_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write a command's options: those without a section first, then each section; those of all commands last."""
    sections: dict[str, list[tuple[str, str]]] = {"Options": []}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None and isinstance(parameter, click.Option):
            sections.setdefault(getattr(parameter, "section", "Options"), []).append(record)
    for name, records in sections.items():
        if records:
            with formatter.section(name):
                formatter.write_dl(records)
