"""`quicksilver bench`: the measurements."""

from __future__ import annotations

import click

from bench.las.run import las
from bench.policies.run import policies
from bench.relay import relay
from bench.resize.run import resize


@click.group()
def bench() -> None:
    """Measurements; each prints one JSON object as its last line and keeps it in bench/results."""


bench.add_command(relay)
bench.add_command(las)
bench.add_command(resize)
bench.add_command(policies)
