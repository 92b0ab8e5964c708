"""Applications that ask for OPPORTUNISTIC containers themselves: Hadoop's distributed shell, and MapReduce's maps.

`python -m quicksilver_lab.workloads.distributed_shell` runs them through proxy and sidecars; with `--plain` on plain
YARN, where Hadoop's own opportunistic scheduling serves them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.workloads import clients, mapreduce
from quicksilver_lab.workloads.clients import Client, Clients
from quicksilver_lab.workloads.environment import (
    OWN_OPPORTUNISTIC,
    Environment,
    Where,
    finish,
    one_line_errors,
    running,
    where_options,
)
from quicksilver_lab.workloads.errors import JobFailedError
from quicksilver_lab.workloads.mapreduce import JobOptions, JobResult
from quicksilver_lab.workloads.records import GUARANTEED, OPPORTUNISTIC, RecordsWatch, RecordTally
from quicksilver_lab.workloads.rest import eventually

JAR: Final = "hadoop-yarn-applications-distributedshell"
OPPORTUNISTIC_MAPS: Final = "mapreduce.job.num-opportunistic-maps-percent"
_MARK: Final = "shell-container-ran"
_MARKED: Final = re.compile(rf"^{_MARK} (container_\w+)$", re.MULTILINE)
_SOURCE: Final = "/opportunistic-source/text"


@dataclass(frozen=True, slots=True)
class ShellResult:
    """A distributed shell application that succeeded."""

    application: str
    kind: str
    """The execution type that it asked for."""
    containers: int
    reported: frozenset[str]
    """Containers whose own output shows that they ran."""
    job_s: float
    tally: RecordTally


def shell_arguments(cluster: Cluster, name: str, kind: str, containers: int, sleep_s: int, queue: str) -> list[str]:
    """Return the command line of distributed shell: containers that print their id and sleep."""
    return [
        *("-jar", str(cluster.artifact(JAR))),
        *("-appname", f"DistributedShell {name}"),  # by this the preset `default` knows it
        *("-queue", queue),
        *("-master_memory", "512"),
        *("-container_memory", "512"),
        *("-container_vcores", "1"),
        *("-num_containers", str(containers)),
        *("-container_type", kind),
        *(("-enforce_execution_type",) if kind == OPPORTUNISTIC else ()),
        *("-shell_command", f"echo {_MARK} $CONTAINER_ID; sleep {sleep_s}"),
    ]


def start_shell(cluster: Cluster, kind: str, containers: int = 4, sleep_s: int = 3, queue: str = "default") -> Client:
    """Start distributed shell with containers of the execution type `kind`."""
    name = f"shell-{kind.lower()}"
    arguments = shell_arguments(cluster, name, kind, containers, sleep_s, queue)
    return clients.start(cluster, name, "distributedshell", arguments)


def run_shells(env: Environment, kinds: Sequence[str], containers: int = 4) -> list[ShellResult]:
    """Run distributed shells side by side, one for each execution type in `kinds`, and gather what they did.

    Raises JobFailedError when one does not succeed, OutputError when its logs do not come.
    """
    with RecordsWatch(env.cluster) as watch, Clients() as together:
        started = [(kind, together.add(start_shell(env.cluster, kind, containers))) for kind in kinds]
        ended = []
        for kind, client in started:
            application = clients.application_id(client.wait())
            env.progress(f"distributed shell, {kind}: {application} ended after {client.wall_s:.0f} s")
            ended.append((kind, application, client.wall_s))
    return [
        ShellResult(app, kind, containers, reported(env.cluster, app, containers), job_s, watch.tally(app))
        for kind, app, job_s in ended
    ]


def reported(cluster: Cluster, application: str, containers: int) -> frozenset[str]:
    """Return the containers that left their mark in the application's aggregated logs.

    Raises OutputError when fewer than `containers` did within a minute of asking.
    """

    def enough() -> frozenset[str] | None:
        ids = marks(cluster.hadoop("logs", "-applicationId", application, check=False).stdout)
        return ids if len(ids) >= containers else None

    return eventually(f"output of {containers} containers of {application}", enough)


def marks(logs: str) -> frozenset[str]:
    """Return the containers that left their mark in these logs."""
    return frozenset(_MARKED.findall(logs))


def run_opportunistic_maps(env: Environment, percent: int, maps: int = 4) -> tuple[JobResult, RecordTally]:
    """Run a wordcount of which `percent` of the maps are asked for as OPPORTUNISTIC by MapReduce itself.

    Raises JobFailedError when the job or its result is wrong.
    """
    text = mapreduce.make_text(2000)
    mapreduce.put_text(env.cluster, _SOURCE, text)
    target = f"/opportunistic-maps-{time.strftime('%H%M%S')}"
    options = JobOptions(properties={OPPORTUNISTIC_MAPS: str(percent)})
    with RecordsWatch(env.cluster) as watch:
        job = mapreduce.start_wordcount(env.cluster, _SOURCE, target, maps=maps, options=options).wait()
    wrong = mapreduce.differences(mapreduce.read_counts(env.cluster, target), mapreduce.count_words(text))
    if wrong:
        raise JobFailedError(f"{len(wrong)} words are counted wrongly", place=target)
    env.progress(f"MapReduce with {percent} % opportunistic maps: {job.job_id} ended after {job.job_s:.0f} s")
    return job, watch.tally(job.application_id)


def shell_is_right(env: Environment, where: Where, shell: ShellResult) -> bool:
    """Return whether all containers ran, with the type that application and route ask for.

    What an application requests as OPPORTUNISTIC must be so. The proxy may leave others guaranteed under any route,
    as what is beyond the queue's quota; one that was killed and asked for again may have left a mark.
    """
    tally = shell.tally
    fewest, most = (tally.ran, tally.ran) if shell.kind == OPPORTUNISTIC else (0, 0)
    if shell.kind == GUARANTEED and env.stack is not None and where.route != "only_g":
        fewest, most = (1 if where.route == "only_q" else 0), tally.ran
    types_right = tally.nm_opportunistic == tally.rm_opportunistic and fewest <= tally.nm_opportunistic <= most
    return len(shell.reported) >= shell.containers <= tally.ran and types_right and not tally.disagreeing


def shell_as_dict(shell: ShellResult) -> dict[str, object]:
    """Return a result as JSON knows it."""
    return {
        "application": shell.application,
        "asked": shell.kind,
        "containers": shell.containers,
        "reported": len(shell.reported),
        "records": shell.tally.as_dict(),
        "job_s": round(shell.job_s, 1),
    }


@click.command()
@where_options("distributed-shell", route="only_g")
@click.option("--containers", type=click.IntRange(1, 12), default=4, show_default=True, help="Of each shell.")
@click.option("--maps-percent", type=click.IntRange(0, 100), default=50, show_default=True, help="Opportunistic maps.")
@one_line_errors
def main(where: Where, containers: int, maps_percent: int) -> None:
    """Run distributed shell with G and O containers, MapReduce with opportunistic maps; exit code 1 unless right."""
    started_s = time.monotonic()
    with running(where, OWN_OPPORTUNISTIC if where.plain else None) as env:
        shells = run_shells(env, [GUARANTEED, OPPORTUNISTIC], containers)
        job, tally = run_opportunistic_maps(env, maps_percent)
        ok = all(shell_is_right(env, where, shell) for shell in shells) and not tally.disagreeing
        ok = ok and (maps_percent < 100 or tally.nm_opportunistic >= job.maps)
        result = {
            "workload": "distributed_shell",
            "yarn": env.how,
            "route": None if env.stack is None else where.route,
            "succeeded": ok,
            "shells": [shell_as_dict(shell) for shell in shells],
            "opportunistic_maps": {"percent": maps_percent, "maps": job.maps, "records": tally.as_dict()},
            "proxy": env.summary(),
        }
    finish(result | {"wall_s": round(time.monotonic() - started_s, 1)}, ok)


if __name__ == "__main__":
    main()
