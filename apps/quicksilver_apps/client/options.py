"""Options that the commands of applications share: which cluster, and as whom."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from quicksilver.common.command_line.groups import SectionOption
from quicksilver_apps.client.errors import ClientError
from quicksilver_apps.client.login import Login
from quicksilver_apps.client.records import checked_id
from quicksilver_apps.client.session import Session
from quicksilver_apps.client.site import ClusterSite

CLUSTER = "Cluster"
Function = Callable[..., Any]


def on_cluster(command: Function) -> Function:
    """Add the options of the cluster and of the login; the command gets `session`."""

    @wraps(command)
    def with_session(
        conf_dir: Path | None,
        principal: str | None,
        keytab: Path | None,
        staging: str,
        hadoop_ca: Path | None,
        **params: Any,
    ) -> Any:
        site = ClusterSite.load(conf_dir)
        session = Session(site, Login.of(site, principal, keytab), staging, hadoop_ca)
        return command(session=session, **params)

    decorated: Function = with_session
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _option(*names: str, **settings: Any) -> Callable[[Function], Function]:
    return click.option(*names, cls=SectionOption, section=CLUSTER, **settings)


_OPTIONS = (
    _option(
        "--conf-dir",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        help="Hadoop's site files ($HADOOP_CONF_DIR, else /etc/hadoop/conf).",
    ),
    _option(
        "--staging",
        metavar="URI",
        envvar="QUICKSILVER_STAGING",
        default="",
        help="Where files lie until the end: hdfs://.. or file:///.. that all nodes see ($QUICKSILVER_STAGING, else "
        "the home folder in HDFS).",
    ),
    _option("--principal", help="Secure clusters: log in as this one, by --keytab; else by the tickets of kinit."),
    _option("--keytab", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Its keytab."),
    _option(
        "--hadoop-ca",
        metavar="FILE",
        type=click.Path(dir_okay=False, exists=True, path_type=Path),
        help="The CA of Hadoop's https servers, where the system does not know it.",
    ),
)


class ApplicationId(click.ParamType[str]):
    """An argument that is an application id."""

    name = "app"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the id. Raises BadParameter when it is none."""
        try:
            return checked_id(str(value))
        except ClientError as error:
            self.fail(str(error), param, ctx)


app_argument = click.argument("application_id", metavar="APP", type=ApplicationId())
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
