"""`python -m quicksilver_lab.papers.zoe`: Zoe's mix of applications as a trace for `quicksilver simulate`."""

from __future__ import annotations

import sys

import click

from quicksilver.simulator.traces.jobs import dump_jobs
from quicksilver_lab.papers.zoe.mix import ZoeMix, applications


@click.command()
@click.option("--jobs", default=80_000, show_default=True, type=click.IntRange(1), help="So many.")
@click.option("--seed", default=1, show_default=True)
@click.option("--interactive", default=0.2, show_default=True, type=click.FloatRange(0, 1), help="Share of all.")
@click.option(
    "--load",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="Share of the paper's cluster, 100 nodes of 32 cores and 128 GB, that they ask for.",
)
def main(jobs: int, seed: int, interactive: float, load: float) -> None:
    """Write Zoe's mix of applications, with core and elastic components, as JSON lines to standard output."""
    try:
        mix = ZoeMix(applications=jobs, interactive_ratio=interactive, load=load)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    dump_jobs(applications(mix, seed), sys.stdout)


if __name__ == "__main__":
    main()
