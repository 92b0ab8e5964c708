"""`python -m quicksilver_lab.bench.fuzz`: feed mutated frames to the wire and the relays, and requests to REST servers.

Findings are written as files, figures as JSON.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final

import click

from quicksilver_lab.bench.fuzz.http_servers import HTTP_TARGETS
from quicksilver_lab.bench.fuzz.run import Fuzzer
from quicksilver_lab.bench.fuzz.targets import TARGETS
from quicksilver_lab.bench.results import commit, machine, write

_ALL: Final = (*TARGETS, *HTTP_TARGETS)


@click.command()
@click.option("--frames", type=click.IntRange(1), default=1_000_000, show_default=True, help="End after so many.")
@click.option("--seconds", type=click.FloatRange(1), default=3600.0, show_default=True, help="Duration, seconds.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--target", "targets", type=click.Choice(_ALL), metavar="TARGET", multiple=True, help="Only these; default: all."
)
@click.option(
    "--corpus", type=click.Path(file_okay=False, path_type=Path), help="Folder for sessions with new outcomes."
)
@click.option(
    "--findings", type=click.Path(file_okay=False, path_type=Path), default=Path("run/fuzz"), show_default=True
)
def main(frames: int, seconds: float, seed: int, targets: tuple[str, ...], corpus: Path | None, findings: Path) -> None:
    """Fuzz; exit code 1 when something was found."""
    begun_s, names = time.monotonic(), targets or _ALL
    fuzzer = Fuzzer(seed, names, corpus, findings)
    fuzzer.run(frames, begun_s + seconds, lambda text: click.echo(text, err=True))
    result = {
        "benchmark": "fuzz",
        "commit": commit(),
        "machine": machine(),
        "settings": {"seed": seed, "targets": names},
    }
    result |= fuzzer.result(time.monotonic() - begun_s)
    write("fuzz", result, {})
    click.echo(json.dumps(result))
    if fuzzer.tally.finding_count:
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
