"""Options that the commands of the daemons share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from quicksilver.common.process.logs import LEVELS

Command = Callable[..., Any]


def settings_options(command: Command) -> Command:
    """Add `--config` and `--conf-dir`: the settings file and the NodeManager's configuration."""
    command = click.option(
        "--conf-dir",
        type=click.Path(path_type=Path),
        help="The NodeManager's configuration; default: $HADOOP_CONF_DIR.",
    )(command)
    return click.option(
        "--config", type=click.Path(path_type=Path), help="quicksilver.yaml; default: as $QUICKSILVER_CONFIG says."
    )(command)


def log_options(command: Command) -> Command:
    """Add `--log-level` and `--log-json`."""
    command = click.option("--log-json", is_flag=True, help="One JSON object per log line.")(command)
    return click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)(command)
