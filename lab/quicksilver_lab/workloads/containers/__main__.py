"""`python -m quicksilver_lab.workloads.containers`: build the images of docker/, and run a cluster of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from quicksilver_lab.workloads.containers.checks import facts
from quicksilver_lab.workloads.containers.compose import NET, PORTS, Compose
from quicksilver_lab.workloads.containers.engine import ContainerEngine, Progress, engine
from quicksilver_lab.workloads.containers.images import NAMES, Image, ImagePlan, build
from quicksilver_lab.workloads.containers.jobs import run_jobs
from quicksilver_lab.workloads.containers.report import image_lines, report, where_to_look
from quicksilver_lab.workloads.environment import Progresses, interruptible, one_line_errors

_KEEP_S: Final = 3600.0


def _build_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--tag", default="latest", show_default=True, help="Version of the images."),
        click.option("--base", help="An image that Docker has, in place of a Debian made by debootstrap."),
        click.option(
            "--archive",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="An archive of `make packages`, in place of the wheels of requirements.lock.",
        ),
    ):
        command = option(command)
    return command


@click.group()
def main() -> None:
    """Container images of quicksilver and a stock Hadoop."""


@main.command("images")
@_build_options
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@one_line_errors
def images_command(names: tuple[str, ...], **options: Any) -> None:
    """Build the images NAMES, all by default, with the Docker daemon that runs."""
    progress = Progresses()
    with interruptible(), engine(progress) as docker:
        if docker.private:
            raise click.ClickException("no Docker daemon answers; start dockerd, or name it by DOCKER_HOST")
        for line in image_lines(build(docker, ImagePlan(**options), progress, names or NAMES)):
            click.echo(line)


@main.command("demo")
@_build_options
@click.option("--keep", is_flag=True, help="Leave everything running; Ctrl-C ends it.")
@click.option("--private", is_flag=True, help="Start a Docker daemon of its own even where one answers.")
@click.option("--net", default=NET, show_default=True, help="First three numbers of the loopback addresses.")
@click.option("--ports", default=PORTS, show_default=True, help="First digits of the NodeManagers' ports.")
@one_line_errors
def demo_command(keep: bool, private: bool, net: str, ports: str, **options: Any) -> None:
    """Build the images, run a cluster of them and a few jobs, and take all down again."""
    progress, began_s = Progresses(), time.monotonic()
    plan = ImagePlan(**options)
    with interruptible(), engine(progress, private=private) as docker:
        had = _image_names(docker)
        compose = Compose(docker, tag=plan.tag, net=net, ports=ports)
        try:
            lines = run_demo(compose, plan, progress)
            click.echo("\n".join([*lines, f"All of it took {time.monotonic() - began_s:.0f} s."]))
            if keep:
                _wait_for_interrupt(compose, progress)
        finally:
            progress("removing containers, volumes and images")
            compose.down()
            _remove(docker, _image_names(docker) - had)


def run_demo(compose: Compose, plan: ImagePlan, progress: Progress) -> list[str]:
    """Build, start, run the jobs, ask the daemons; return the report. Raises WorkloadError."""
    images: list[Image] = build(compose.engine, plan, progress)
    began_s = time.monotonic()
    progress("starting 13 containers; each waits until those are healthy that it needs")
    compose.up()
    progress(f"all are healthy after {time.monotonic() - began_s:.0f} s")
    jobs = run_jobs(compose, progress)
    return [*image_lines(images), *report(jobs, facts(compose, jobs)), *where_to_look(compose)]


def _wait_for_interrupt(compose: Compose, progress: Progress) -> None:
    for line in where_to_look(compose):
        click.echo(line)
    progress("left running; Ctrl-C ends it")
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(_KEEP_S)


def _image_names(docker: ContainerEngine) -> set[str]:
    return set(docker.docker("images", "--format", "{{.Repository}}:{{.Tag}}", "quicksilver/*").split())


def _remove(docker: ContainerEngine, names: set[str]) -> None:
    """Remove what the demo built; the base's root stays in the cache."""
    if names and not docker.private:
        docker.docker("rmi", *sorted(names))


if __name__ == "__main__":
    main(prog_name="python -m quicksilver_lab.workloads.containers")
