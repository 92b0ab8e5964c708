"""The way back to stock YARN (docs/uninstall.md) while a MapReduce job runs; its files too are as they were.

The cluster is plain afterwards: `helpers.running` turns it back for a module that comes later.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from quicksilver.cli import cli
from quicksilver_lab.cluster import state
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.confdirs import ConfDirs
from quicksilver_lab.cluster.daemon_processes import DaemonProcesses
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.clients import Clients
from quicksilver_lab.workloads.faults import checks
from quicksilver_lab.workloads.mapreduce import count_words, put_text, read_counts, start_wordcount
from quicksilver_lab.workloads.records import RecordsWatch, application_of
from quicksilver_lab.workloads.rest import get_json
from tests.promise.conftest import daemons
from tests.promise.helpers import (
    TEXT,
    alive,
    at_node,
    behind,
    end_applications,
    no_traceback,
    options,
    submitted,
    until,
)

pytestmark = [pytest.mark.promise, pytest.mark.hadoop, pytest.mark.timeout(900)]
MAPS, REDUCES = 2, 3
ENDED_S = 480.0
ONE_AT_A_TIME = {"mapreduce.job.running.reduce.limit": "1"}
"""The last reduce is asked for once one has ended. MapReduce may begin two, or give a second container back: its limit
comes a heartbeat late."""


@pytest.fixture
def stack(jobs_cluster: Cluster) -> Iterator[LocalDaemons]:
    if not jobs_cluster.spec.overlay:
        jobs_cluster.restart_yarn(overlay=True)
    made = daemons(jobs_cluster, {}, "back")
    made.supervised = False
    made.start()
    try:
        yield made
    except BaseException:
        end_applications(jobs_cluster)
        raise
    finally:
        made.stop()
    no_traceback(made)


def end(stack: LocalDaemons, name: str) -> None:
    """Stop one of our processes for good."""
    process = stack.processes.pop(name)
    process.terminate()
    process.wait(60)


def plain(cluster: Cluster) -> None:
    """Write the site files as they were before the installation; what runs has the others still."""
    cluster.spec = cluster.spec.model_copy(update={"overlay": False})
    cluster.conf, cluster.processes = ConfDirs(cluster.spec), DaemonProcesses(cluster.spec)
    cluster.conf.write(cluster.launcher.jars)
    state.save(cluster.processes.saved().model_copy(update={"spec": cluster.spec}))


def live_q(stack: LocalDaemons) -> int:
    """Return what `quicksilver app list` shows as allocated and pending Q, of all applications."""
    return sum(app["live_q"] + app["wanted_q"] for app in stack.get("/v1/applications")["items"])


def test_a_job_goes_on_on_stock_yarn(jobs_cluster: Cluster, stack: LocalDaemons, tmp_path: Path) -> None:
    maps, reduces = tmp_path / "maps", tmp_path / "reduces"
    given = options(behind(jobs_cluster, "map", maps), behind(jobs_cluster, "reduce", reduces), ONE_AT_A_TIME)
    put_text(jobs_cluster, "/back/input", TEXT)
    with RecordsWatch(jobs_cluster) as watch, Clients() as together:
        job = start_wordcount(jobs_cluster, "/back/input", "/back/counted", maps=MAPS, reduces=REDUCES, options=given)
        together.add(job.client)
        app = until("an application", lambda: submitted(job.client))
        until("maps that run as queueable", lambda: len(alive(stack, app)) == MAPS, seen=lambda: alive(stack, app))
        master = guaranteed(watch, app)
        ordered = CliRunner().invoke(cli, ["proxy", "bypass", "on", "--url", stack.url])
        assert ordered.exit_code == 0, ordered.output
        assert live_q(stack) == MAPS, "what runs goes on"
        maps.touch()
        until("no Q", lambda: live_q(stack) == 0, seen=lambda: stack.get("/v1/applications")["items"])
        before: set[str] = set()

        def settled() -> bool:  # a grant whose container does not run yet would not outlive a restart of YARN
            nonlocal before
            before = guaranteed(watch, app) - master
            return bool(before) and before == running_g(stack, app) - master and not outstanding(jobs_cluster, app)

        until("reduces that run as guaranteed, and no ask", settled, seen=lambda: (before, running_g(stack, app)))
        assert len(before) < REDUCES, before
        plain(jobs_cluster)
        end(stack, "proxy")
        jobs_cluster.restart("resourcemanager")
        for node in jobs_cluster.spec.node_addresses:
            end(stack, node.name)
            jobs_cluster.restart(f"nodemanager-{node.name}")
        reduces.touch()
        result = job.wait(ENDED_S)
        granted = watch.granted()
    assert read_counts(jobs_cluster, "/back/counted") == count_words(TEXT)
    assert (result.failed_attempts, result.killed_attempts) == (0, 0)
    assert (result.maps, result.reduces) == (MAPS, REDUCES)
    assert len(granted.opportunistic) == MAPS, "the maps alone"
    assert guaranteed(watch, app) - master > before, "the last reduce came from the ResourceManager itself"
    left = checks.leftovers(jobs_cluster, None, groups="none-of-ours")
    assert not left, "\n".join(left)
    assert checks.launched_twice(checks.node_logs(jobs_cluster)) == []


def running_g(stack: LocalDaemons, app: str) -> set[str]:
    """Return the guaranteed containers of an application whose programs run, at all sidecars."""
    rows = [row for node in stack.cluster.spec.node_addresses for row in at_node(stack, node)]
    running = {row["container_id"] for row in rows if row["kind"] == "G" and row["state"] == "running"}
    return {container for container in running if application_of(container) == app}


def outstanding(cluster: Cluster, app: str) -> int:
    """Return how many containers an application still asks for, by the ResourceManager's REST."""
    rows = get_json(f"{cluster.rm_rest}/ws/v1/cluster/apps/{app}")["app"].get("resourceRequests", [])
    return sum(row["numContainers"] for row in rows if row["resourceName"] == "*")


def guaranteed(watch: RecordsWatch, app: str) -> set[str]:
    """Return the guaranteed containers of an application since the begin, without those that its master gave back."""
    granted = watch.granted()
    return {c for c in granted.all - granted.opportunistic - granted.released if application_of(c) == app}


@pytest.mark.parametrize("role", ["resourcemanager", "nodemanager"])
def test_site_files_are_as_before_byte_for_byte(jobs_cluster: Cluster, tmp_path: Path, role: str) -> None:
    plain(jobs_cluster)
    source = jobs_cluster.rm_conf_dir if role == "resourcemanager" else jobs_cluster.node_conf_dirs[0]
    folder = tmp_path / "conf"
    shutil.copytree(source, folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    for command, changed in (("install", True), ("uninstall", False)):
        arguments = [command, "--conf-dir", str(folder), "--in-place", *(["--role", role] if changed else [])]
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 0, done.output
        now = {name: (folder / name).read_bytes() for name in before}
        assert (now != before) is changed, command
    added = {file.name for file in folder.iterdir()} - before.keys()
    assert all(".before-quicksilver-" in name for name in added), added
