"""How every entry point starts the program.

`supervise` runs as long as its daemon, on every node: it is started here without the libraries of the other commands.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main() -> None:
    """Run the program."""
    start(sys.argv[1:])


def start(arguments: Sequence[str]) -> None:
    """Run the program with the arguments of its command line, which are those of this process too."""
    if arguments[:2] == ["supervise", "--"] and len(arguments) > 2:
        supervise(arguments[2:], use_standby=True)
    from quicksilver import cli
    from quicksilver.process.standby_process import stand_by

    stand_by(cli.load)
    cli.main()


def supervise(command: Sequence[str], *, use_standby: bool) -> None:
    """Supervise a command of the program; ends this process with its exit code."""
    from quicksilver.common.process.interpreter import module_command
    from quicksilver.process.supervisor import Supervisor

    raise SystemExit(Supervisor(module_command("quicksilver", *command), use_standby=use_standby).run())
