"""`quicksilver init`: a first quicksilver.yaml for this host, from Hadoop's files and a few answers."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from policies.config.schema import full_queue, queue_test
from policies.errors import close_to
from quicksilver.common.address import Address, parse_address
from quicksilver.common.command_line.groups import Command
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import HadoopConf, load_hadoop_conf
from quicksilver.common.http.security import stays_here
from quicksilver.common.settings.settings_file import SYSTEM_WIDE
from quicksilver.doctor.checks.kerberos import KEYTAB, principal_of, wants_login
from quicksilver.doctor.collect import scheduler_site
from quicksilver.doctor.install import bare_conf
from quicksilver.doctor.model import NM, RM, DoctorSite
from quicksilver.doctor.node_size import node_name, own_vcores
from quicksilver.doctor.queue_names import FileQueues
from quicksilver.policy.goals import settings_for, write_new

_SCHEDULER: Final = "yarn.resourcemanager.scheduler.address"
_MOVED_PORT: Final = 18030
_REST_PORT: Final = 8390


@dataclass(frozen=True, slots=True)
class Host:
    """What the file is written for."""

    conf_dir: Path
    roles: Sequence[str]
    upstream: Address
    rm_id: str
    """With high availability, the ResourceManager of this host; else ""."""
    node: str
    """The node's own name, for its certificate."""
    tls: bool
    queues: Sequence[str]
    goal: str
    vcores: int | None = None
    """What the node's containers may use, N; None where the NodeManager detects it."""
    principal: str = ""
    """Of proxy and sidecar, where YARN's web servers want a Kerberos login."""

    @property
    def alone(self) -> bool:
        """Whether everything is on this machine, so that REST stays on loopback."""
        return stays_here(self.upstream.host)


@click.command("init", cls=Command)
@click.option("--role", "roles", type=click.Choice((RM, NM)), multiple=True, help="What runs here; may be repeated.")
@click.option("--conf-dir", type=click.Path(file_okay=False, path_type=Path), help="Hadoop's site files.")
@click.option("--upstream", metavar="HOST:PORT", help=f"Where the scheduler listens then; default: {_MOVED_PORT}.")
@click.option("--rm-id", default="", help="With high availability: the id of this host's ResourceManager.")
@click.option("--queues", metavar="A,B,...", help="YARN queues whose containers may be queueable; default: all.")
@click.option("--goal", default="short-jobs", show_default=True, help="As `quicksilver policy new` lists them.")
@click.option("--tls/--insecure", default=True, help="Protect REST beyond this host, or let everybody use it.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=SYSTEM_WIDE, show_default=True)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--yes", is_flag=True, help="Ask nothing: take the options and what Hadoop's files say.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: file, text and next steps; implies --yes.")
def init(
    roles: tuple[str, ...],
    conf_dir: Path | None,
    upstream: str | None,
    rm_id: str,
    queues: str | None,
    goal: str,
    tls: bool,
    out: Path,
    force: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Write a first quicksilver.yaml for this host: addresses from Hadoop's files, policies for a goal.

    It asks for what the options do not say. Afterwards it prints the next steps.
    """
    if out.exists() and not force:
        raise SettingsError("is there already", place=str(out), remedy="name another file with --out, or give --force")
    conf = load_hadoop_conf(conf_dir)
    host = _host(conf, roles, upstream, rm_id, queues, goal, tls, asks=not (yes or as_json))
    text, steps = settings_text(host), next_steps(host, out)
    write_new(out, text, force=force)
    if as_json:
        click.echo(json.dumps({"file": str(out), "text": text, "next": steps}, indent=2))
        return
    click.echo(f"{out}: written. Next:")
    for number, step in enumerate(steps, 1):
        click.echo(f"  {number}. {step}")


def _host(
    conf: HadoopConf,
    roles: tuple[str, ...],
    upstream: str | None,
    rm_id: str,
    queues: str | None,
    goal: str,
    tls: bool,
    *,
    asks: bool,
) -> Host:
    """Return what to write, from Hadoop's files, the options, and, where a person answers, questions."""
    scheduler, own_id = _scheduler(conf, rm_id)
    roles = roles or _roles(scheduler.host, asks)
    if conf.ha and RM in roles and not own_id:
        text = f"there are several ResourceManagers ({', '.join(conf.rm_ids())}), and none is on this host by its name"
        raise SettingsError(text, place=str(conf.directory), remedy="say which one is meant with --rm-id")
    moved = _moved(scheduler)
    if upstream is None and asks and RM in roles:
        upstream = click.prompt("Address to which the ResourceManager's scheduler moves", default=str(moved))
    if upstream is not None:
        moved = parse_address(upstream, "--upstream", _MOVED_PORT)
    known = _known_queues(conf)
    if queues is None and asks:
        hint = f" ({', '.join(known[:12])}{' ...' if len(known) > 12 else ''})" if known else ""
        queues = click.prompt(f"YARN queues with queueable containers, by commas{hint}", default="*")
    site = DoctorSite(NM, "", conf)
    return Host(
        conf.directory.absolute(),
        roles,
        moved,
        own_id,
        node_name(conf) or socket.getfqdn(),
        tls,
        _queues(queues or "*", known),
        goal,
        _vcores(conf),
        principal_of(site) if wants_login(site) else "",
    )


def _vcores(conf: HadoopConf) -> int | None:
    """Return the node's own vcores; where this host is the node, no more than it has cores."""
    vcores = own_vcores(bare_conf(conf.directory))
    here = node_name(conf) in ("", socket.getfqdn(), socket.gethostname())
    return min(vcores, os.cpu_count() or vcores) if vcores and here else vcores


def settings_text(host: Host) -> str:
    """Return the settings file of a host."""
    lines = [
        "# Settings of quicksilver, written by `quicksilver init`. All settings: `quicksilver help settings`.",
        f"hadoop_conf_dir: {host.conf_dir}",
    ]
    beyond = not host.alone
    if RM in host.roles:
        lines += ["", "# The proxy in front of the ResourceManager's scheduler.", "proxy:"]
        lines += [f"  upstream: {host.upstream}      # where the scheduler listens now; the proxy has its former port"]
        lines += [f"  rm_id: {json.dumps(host.rm_id)}"] if host.rm_id else []
        rest = Address(host.upstream.host, _REST_PORT) if beyond else Address("127.0.0.1", _REST_PORT)
        lines += [f"  rest_listen: {rest}   # where sidecars report and commands ask", *_login(host)]
    if NM in host.roles:
        lines += ["", "# The sidecar beside the NodeManager: everything else comes from Hadoop's files."]
        lines += [
            "sidecar:",
            "  reserve_mb: 512      # physical memory that stays free when a Q starts",
            *_login(host),
        ]
        if host.vcores:
            lines.append(
                f"  vcores: {host.vcores}   # of the node; `quicksilver install` gives the NodeManager `extra` more"
            )
    if beyond:
        lines += ["", *_security(host)]
    return "\n".join([*lines, "", settings_for(host.goal, host.queues)])


def _login(host: Host) -> list[str]:
    """Return the lines of a Kerberos login; nothing where YARN's web servers want none."""
    if not host.principal:
        return []
    return [
        f"  kerberos_principal: {host.principal}   # make it in the KDC; _HOST is this host's full name",
        f"  kerberos_keytab: {KEYTAB}   # with its key, mode 0400, of the user that the daemon runs as",
    ]


def _security(host: Host) -> list[str]:
    if not host.tls:
        return ["security:", "  insecure: true       # everybody who reaches REST may do everything"]
    certificate = "proxy" if RM in host.roles else host.node
    return [
        "# REST beyond this host: `quicksilver certs` makes these files; see `quicksilver help security`.",
        "security:",
        "  token_file: /etc/quicksilver/tokens",
        f"  tls_cert: /etc/quicksilver/tls/{certificate}.crt",
        f"  tls_key: /etc/quicksilver/tls/{certificate}.key",
        "  tls_ca: /etc/quicksilver/tls/ca.crt",
    ]


def next_steps(host: Host, out: Path) -> list[str]:
    """Return what to do next, in order, a command or a sentence each."""
    steps = []
    if not host.alone and host.tls:
        steps.append(
            "quicksilver certs init (once for all hosts); quicksilver certs token admin /etc/quicksilver/tokens"
        )
        proxy = RM in host.roles
        steps.append(f"quicksilver certs {f'proxy {host.upstream.host}' if proxy else f'node {host.node}'}")
    steps.append(f"quicksilver policy check {out}")
    for role in host.roles:
        extra = f" --host {host.node} --config {out}" if role == NM else ""
        steps.append(f"quicksilver install --role {role}{extra} --conf-dir {host.conf_dir} --dry-run, then --in-place")
    steps.append(f"quicksilver doctor --offline --config {out} --conf-dir {host.conf_dir}")
    if RM in host.roles:
        steps.append("restart the ResourceManager, then start quicksilver-proxy.service (or `quicksilver proxy run`)")
    if NM in host.roles:
        steps.append("restart the NodeManager, then start quicksilver-sidecar.service (or `quicksilver sidecar run`)")
    return [*steps, "quicksilver health; quicksilver node list; quicksilver top"]


def _scheduler(conf: HadoopConf, rm_id: str) -> tuple[Address, str]:
    """Return the scheduler's address, and with high availability the id of this host's ResourceManager.

    Where none is on this host by its name: the first one's address, and no id.
    """
    if not conf.ha:
        return conf.rm_address(_SCHEDULER), ""
    own = rm_id or conf.rm_id() or ""
    if not own:
        here = {socket.getfqdn(), socket.gethostname()}
        own = next((each for each in conf.rm_ids() if conf.rm_address(_SCHEDULER, each).host in here), "")
    return conf.rm_address(_SCHEDULER, own or conf.rm_ids()[0]), own


def _moved(scheduler: Address) -> Address:
    host = "127.0.0.1" if scheduler.host in ("0.0.0.0", "::") else scheduler.host
    return Address(host, _MOVED_PORT)


def _roles(rm_host: str, asks: bool) -> tuple[str, ...]:
    """Return what runs on this host, by its name; asked for where a person answers."""
    here = {socket.getfqdn(), socket.gethostname(), "localhost", "127.0.0.1", "0.0.0.0"}
    likely = RM if rm_host in here else NM
    if not asks:
        return (likely,)
    text = click.prompt("What runs here", type=click.Choice((RM, NM, "both")), default=likely)
    return (RM, NM) if text == "both" else (text,)


def _known_queues(conf: HadoopConf) -> list[str]:
    """Return the leaf queues of the scheduler's files, [] where there are none."""
    names = FileQueues([scheduler_site(conf.directory)]).names
    return sorted(name for name in names if not any(child.startswith(f"{name}.") for child in names))


def _queues(text: str, known: Sequence[str]) -> list[str]:
    """Return the queues. Raises BadParameter for one that the scheduler's files do not have."""
    queues = [name.strip() for name in text.split(",") if name.strip()]
    for name in queues:
        if known and not any(queue_test((name,))(queue) for queue in known):
            hint = close_to(full_queue(name), list(known))
            raise click.BadParameter(f"no queue of the scheduler's files is {name}; {hint}", param_hint="--queues")
    return queues
