"""The manual page quicksilver(1), made of the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence

import click

from quicksilver.common.command_line.groups import MORE_THAN_A_SENTENCE, help_record
from quicksilver.common.settings.cli_security import CONNECTION

_FILES = (
    ("/etc/quicksilver/quicksilver.yaml", "The settings, where neither --config nor ./quicksilver.yaml names others."),
    ("/etc/quicksilver/tls, /etc/quicksilver/tokens", "Certificates and tokens for REST."),
    ("/var/lib/quicksilver", "State of the daemons: journals, and the store unless proxy.store_url names another."),
)
_VARIABLES = (
    ("QUICKSILVER_CONFIG", "The settings file."),
    ("QUICKSILVER_URL", "The proxy's REST address, for the commands that take --url."),
    ("QUICKSILVER_TOKEN_FILE, QUICKSILVER_CA", "Token file and CA for REST, as --token-file and --ca."),
    ("HADOOP_CONF_DIR", "Hadoop's site files, where nothing else names them."),
)
_STATUS = (
    ("0", "All went well."),
    ("1", "An error that you can repair: one line with place, cause and remedy. Of checks: they found something."),
    ("2", "A wrong command line."),
)


def manual(program: click.Group, sections: Mapping[str, Sequence[str]], name: str, version: str) -> str:
    """Return the page in roff; `sections`: the commands of the program by heading."""
    return "".join(f"{line}\n" for line in _lines(program, sections, name, version))


def escaped(text: str) -> str:
    """Return text for a line of roff: nothing in it is a request or an escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def _lines(program: click.Group, sections: Mapping[str, Sequence[str]], name: str, version: str) -> Iterator[str]:
    top = click.Context(program, info_name=name)
    yield f'.TH {name.upper()} 1 "" "{escaped(f"{name} {version}")}" "User Commands"'
    yield ".nh"
    yield ".ad l"
    yield ".SH NAME"
    yield f"{name} \\- two\\-level scheduling for stock Apache Hadoop YARN"
    yield ".SH SYNOPSIS"
    yield f".B {name}"
    yield "COMMAND [SUBCOMMAND] [OPTIONS] [ARGS]"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(program.help or "")
    for heading, commands in sections.items():
        yield f'.SH "{escaped(heading.upper())}"'
        for child in commands:
            command = program.get_command(top, child)
            if command is not None:
                yield from _command(command, click.Context(command, info_name=child, parent=top))
    yield '.SH "OPTIONS OF THE CONNECTION"'
    yield from _paragraphs("All commands that ask the proxy take these:")
    yield from _common(program, top)
    for heading, pairs in (("FILES", _FILES), ("ENVIRONMENT", _VARIABLES), ("EXIT STATUS", _STATUS)):
        yield f'.SH "{heading}"'
        for term, meaning in pairs:
            yield from _term(term, meaning)
    yield '.SH "SEE ALSO"'
    yield from _paragraphs(f"`{name} help` lists the pages of the documentation, `{name} help TOPIC` shows one.")


def _command(command: click.Command, ctx: click.Context) -> Iterator[str]:
    """Yield a command, then its subcommands."""
    arguments = " ".join(part for part in command.collect_usage_pieces(ctx) if not part.startswith("COMMAND"))
    yield f'.SS "{escaped(ctx.command_path)}{" " if arguments else ""}{escaped(arguments)}"'
    yield from _paragraphs(command.help or command.get_short_help_str(MORE_THAN_A_SENTENCE))
    for parameter in command.get_params(ctx):
        record = help_record(parameter, ctx)
        if record is not None and "--help" not in parameter.opts and not _is_common(parameter):
            yield from _term(*record)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            if inner is not None and not inner.hidden:
                yield from _command(inner, click.Context(inner, info_name=name, parent=ctx))


def _is_common(parameter: click.Parameter) -> bool:
    return getattr(parameter, "section", "") == CONNECTION


def _common(program: click.Group, top: click.Context) -> Iterator[str]:
    """Yield the options of the connection once, as some command has them."""
    health = program.get_command(top, "health")
    for parameter in health.get_params(top) if health is not None else ():
        record = help_record(parameter, top)
        if record is not None and _is_common(parameter):
            yield from _term(*record)


def _paragraphs(text: str) -> Iterator[str]:
    plain = inspect.cleandoc(text).replace("\b\n", "")
    for number, paragraph in enumerate(re.split(r"\n\s*\n", plain)):
        if number:
            yield ".PP"
        yield escaped(" ".join(paragraph.split()))


def _term(term: str, meaning: str) -> Iterator[str]:
    yield ".TP"
    yield f".B {escaped(term)}"
    yield escaped(" ".join(meaning.split())) or "\\&"
