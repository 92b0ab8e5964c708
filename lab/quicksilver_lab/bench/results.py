"""Files of results: one JSON file for each run, with all that is needed to read it later."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
import psutil

RESULTS: Final = Path("bench/results")
"""Relative to the working directory."""
folder_option: Final = click.option(
    "--results", "folder", default=RESULTS, type=click.Path(path_type=Path), help="Folder of the result file."
)
"""The option of a benchmark that says where its result goes: the parameter `folder`."""


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cpu": models[0].partition(":")[2].strip() if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mb": psutil.virtual_memory().total >> 20,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def commit() -> str:
    """Return the commit of this checkout, with `+` behind it when files differ from it; "" outside of a checkout."""
    try:
        completed = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return completed.stdout.strip()


def write(name: str, result: Mapping[str, Any], raw: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Write a result and its raw samples to `folder`/NAME-TIME.json; return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps({**result, "argv": sys.argv, "raw": raw}, separators=(",", ":")))
    return path
