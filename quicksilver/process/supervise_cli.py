"""`quicksilver supervise`: the command line of the supervisor."""

from __future__ import annotations

import click

from quicksilver.process.start import supervise as run


@click.command("supervise", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--standby/--no-standby", default=True, show_default=True, help="Have a second process loaded for the next start."
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def supervise(command: tuple[str, ...], standby: bool) -> None:
    """Run COMMAND (after `--`) of quicksilver, hold its sockets, and restart it when it ends.

    A client that connects between an end and the next start waits instead of being refused. SIGUSR2 replaces the
    command in order by a new process (new code, the same sockets); SIGHUP is forwarded; SIGTERM and SIGINT end both.
    A command that fails at its very first start ends the supervisor with its exit code. One that hangs, and so no
    longer reports that it works, is aborted and restarted. A standby process that has loaded the program waits, so that
    a restart takes a fraction of a second.
    """
    run(command, use_standby=standby)
