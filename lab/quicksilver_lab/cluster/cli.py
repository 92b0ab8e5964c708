"""The commands `quicksilver cluster ...`."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import click
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from quicksilver.common.command_line.groups import CommandGroup
from quicksilver_lab.cluster.cluster import Cluster, ClusterStatus
from quicksilver_lab.cluster.errors import ClusterError
from quicksilver_lab.cluster.hosts.cli import hosts, on
from quicksilver_lab.cluster.progress import FewLines
from quicksilver_lab.cluster.runtime.releases import DEFAULT, RELEASES
from quicksilver_lab.cluster.spec import ClusterSpec

P = ParamSpec("P")
R = TypeVar("R")

_dir = click.option(
    "--dir",
    "workdir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("run/cluster"),
    show_default=True,
    help="The folder of the cluster's files.",
)


_json = click.option("--json", "as_json", is_flag=True, help="Print JSON: as `quicksilver cluster status` has it.")


@click.group("cluster", cls=CommandGroup)
def cluster() -> None:
    """A real Hadoop cluster on this machine."""


cluster.add_command(hosts)
cluster.add_command(on)


@cluster.command("start")
@click.option("--base-port", default=18000, show_default=True, help="First port; all others follow it.")
@click.option("--nodes", default=3, show_default=True, help="Number of NodeManagers.")
@click.option("--hadoop", default=DEFAULT, show_default=True, type=click.Choice(list(RELEASES)), help="Its version.")
@click.option("--rm-hadoop", type=click.Choice(list(RELEASES)), help="Another version of the ResourceManager.")
@click.option("--nm-hadoop", type=click.Choice(list(RELEASES)), help="Another version of the NodeManagers.")
@click.option("--plain", is_flag=True, help="Stock YARN, without the overlay in hadoop-conf/.")
@click.option("--rm-recovery", is_flag=True, help="Running applications outlive a restart of the ResourceManager.")
@click.option("--ha", is_flag=True, help="Two ResourceManagers and a ZooKeeper.")
@click.option("--kerberos", is_flag=True, help="A secure cluster with a KDC of its own.")
@click.option("--spnego", is_flag=True, help="With --kerberos: the web servers want a Kerberos login too.")
@_json
@_dir
def start(
    workdir: Path,
    plain: bool,
    as_json: bool,
    rm_hadoop: str | None,
    nm_hadoop: str | None,
    **fields: int | bool | str,
) -> None:
    """Start ResourceManager, NodeManagers, HDFS and JobHistoryServer."""
    versions = {"resourcemanager": rm_hadoop, "nodemanager": nm_hadoop}
    hadoop_of = {kind: version for kind, version in versions.items() if version}
    try:
        spec = ClusterSpec.model_validate({"workdir": workdir, "overlay": not plain, "hadoop_of": hadoop_of, **fields})
    except ValidationError as error:
        why = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in error.errors())
        raise ClusterError(why) from error
    started = Cluster(spec)
    _with_progress(f"cluster in {workdir}", started.start)
    _print(started.status(), as_json)


@cluster.command("restart-yarn")
@click.option("--plain/--overlay", required=True, help="Without or with the overlay in hadoop-conf/.")
@_json
@_dir
def restart_yarn(plain: bool, as_json: bool, workdir: Path) -> None:
    """Restart ResourceManager and NodeManagers only, with or without the overlay."""
    target = Cluster.attach(workdir)
    _with_progress("YARN", lambda progress: target.restart_yarn(overlay=not plain, progress=progress))
    _print(target.status(), as_json)


@cluster.command("stop")
@_json
@_dir
def stop(as_json: bool, workdir: Path) -> None:
    """Stop every daemon and container of the cluster; its files stay."""
    target = Cluster.attach(workdir)
    _with_progress(f"cluster in {workdir}", target.stop)
    if as_json:
        click.echo(json.dumps(as_dict(target.status()), indent=2))


@cluster.command("status")
@_json
@_dir
def status(as_json: bool, workdir: Path) -> None:
    """Show daemons, nodes and addresses; exit code 3 when the cluster is not wholly up."""
    state = Cluster.attach(workdir).status()
    _print(state, as_json)
    if not state.running:
        sys.exit(3)


@cluster.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--user", help="Act as this HDFS and YARN user.")
@_dir
def run(command: str, args: tuple[str, ...], user: str | None, workdir: Path) -> None:
    """Run a Hadoop client: fs, jar, examples, job, application, logs, gridmix, or a class name."""
    with Cluster.attach(workdir).popen(command, *args, user=user, output=sys.stdout) as process:
        sys.exit(process.wait())


def as_dict(state: ClusterStatus) -> dict[str, object]:
    """Return a status as JSON knows it."""
    spec = state.spec
    return {
        "running": state.running,
        "overlay": spec.overlay,
        "hadoop": spec.hadoop,
        "hadoop_of": spec.hadoop_of,
        "workdir": str(spec.workdir),
        "conf_dir": str(Cluster(spec).conf_dir),
        "addresses": _addresses(spec),
        "daemons": [
            {"name": d.name, "pid": d.pid, "alive": d.alive, "up": d.up, "log": str(d.log)} for d in state.daemons
        ],
        "nodes": [
            {"node_id": str(n.rpc), "web": n.web.url, "state": state.node_states.get(str(n.rpc), "UNKNOWN")}
            for n in spec.node_addresses
        ],
        "container_processes": state.containers,
    }


def _addresses(spec: ClusterSpec) -> dict[str, str]:
    addresses: dict[str, str] = {}
    for rm in spec.resource_managers:
        addresses |= {f"{rm.daemon.replace('-', '_')}_web": rm.web.url}
        addresses |= {f"scheduler{rm.suffix.replace('.', '_')}": str(rm.scheduler)}
        if spec.overlay:
            addresses |= {f"moved_scheduler{rm.suffix.replace('.', '_')}": str(rm.moved_scheduler)}
    if spec.has_zookeeper:
        addresses |= {"zookeeper": str(spec.zookeeper)}
    return addresses | {"jobhistory_web": spec.jobhistory_web.url, "namenode_web": spec.namenode_web.url}


def _print(state: ClusterStatus, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(as_dict(state), indent=2))
    else:
        _show(state)


def _show(state: ClusterStatus) -> None:
    spec, console = state.spec, Console()
    table = Table("daemon", "pid", "state")
    for daemon in state.daemons:
        table.add_row(daemon.name, str(daemon.pid), "up" if daemon.up else "starting" if daemon.alive else "dead")
    console.print(table)
    for daemon in state.daemons:
        console.print(f"log of {daemon.name}: {daemon.log}", soft_wrap=True, highlight=False)
    for name, address in _addresses(spec).items():
        console.print(f"{name.replace('_', ' ')}: {address}")
    console.print(f"HADOOP_CONF_DIR={Cluster(spec).conf_dir}", soft_wrap=True)
    if spec.overlay:
        console.print("The overlay is on: jobs run once the proxy and the sidecars are up.")


def _with_progress(title: str, action: Callable[[Callable[[str], None]], None]) -> None:
    console, lines = Console(stderr=True), FewLines()
    with console.status(title) as shown:

        def progress(message: str) -> None:
            shown.update(f"{title}: {message}")
            if " up " in message or (not console.is_terminal and lines.prints(message)):
                console.print(message)

        action(progress)
