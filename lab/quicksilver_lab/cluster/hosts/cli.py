"""The commands `quicksilver cluster hosts` and `quicksilver cluster on`."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from quicksilver_lab.cluster.errors import ClusterError
from quicksilver_lab.cluster.hosts.host_cluster import HostCluster, HostDaemons, Hosts, on_hosts
from quicksilver_lab.cluster.hosts.host_spec import HostSpec
from quicksilver_lab.cluster.hosts.network_spec import NetworkSpec

_dir = click.option(
    "--dir",
    "workdir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("run/hosts"),
    show_default=True,
    help="The folder of the cluster's files.",
)
INSECURE: Mapping[str, Any] = {"security": {"insecure": True}}
"""REST beyond loopback without TLS: nobody else is on this network."""


@click.command("hosts")
@click.option("--racks", default=3, show_default=True, help="Number of racks.")
@click.option("--nodes-per-rack", default=4, show_default=True, help="NodeManagers in each rack.")
@click.option("--delay-ms", default=20.0, show_default=True, help="From one rack to another, each way.")
@click.option("--loss-ratio", default=0.01, show_default=True, help="Part of the packets between racks that is lost.")
@click.option("--ha", is_flag=True, help="Two ResourceManagers and a ZooKeeper, on three hosts.")
@click.option("--plain", is_flag=True, help="Stock YARN, without proxy and sidecars.")
@_dir
def hosts(workdir: Path, ha: bool, plain: bool, **network: int | float) -> None:
    """Run a cluster of many hosts, proxy and sidecars until Ctrl-C; nothing is left then. Needs root."""
    try:
        there = NetworkSpec.model_validate(network)
        spec = HostSpec(
            workdir=workdir.absolute(),
            network=there,
            nodes=len(there.nodes),
            ha=ha,
            overlay=not plain,
            base_port=8000,
            node_vcores=2,
            node_memory_mb=2048,
            min_allocation_mb=256,
        )
    except ValidationError as error:
        why = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in error.errors())
        raise ClusterError(why) from error
    with on_hosts(spec) as network_hosts:
        cluster = HostCluster(spec, network_hosts)
        cluster.start(click.echo)
        stack = None if plain else HostDaemons(cluster, policies={}, sections=INSECURE)
        try:
            if stack is not None:
                stack.start(click.echo)
                click.echo(f"proxy: {stack.url}")
            click.echo(f"ResourceManager: {cluster.rm_rest}; HADOOP_CONF_DIR={cluster.conf_dir}")
            click.echo(f"From another shell: quicksilver cluster on --dir {workdir} client curl -s {cluster.rm_rest}")
            click.echo("Ctrl-C ends everything.")
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
        except KeyboardInterrupt:
            click.echo("stopping")
        finally:
            if stack is not None:
                stack.stop()
            cluster.stop()


@click.command("on", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_dir
@click.argument("host")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def on(workdir: Path, host: str, command: tuple[str, ...]) -> None:
    """Run a command on a host of `quicksilver cluster hosts`: rm1, node1, ...; rack1 is the switch of a rack."""
    there = Hosts(workdir.absolute())
    if host not in there.pids:
        raise ClusterError(f"{host}: no such host. Take one of: {', '.join(there.pids)}.")
    argv = there.argv(host, command, Path.cwd())
    os.execvp(argv[0], argv)
