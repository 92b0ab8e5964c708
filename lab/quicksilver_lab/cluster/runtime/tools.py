"""Tools of Java that bring or make jars: Maven and compilers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Final

from quicksilver_lab.cluster.errors import DownloadError
from quicksilver_lab.cluster.runtime.java import Java

TIMEOUT_S: Final = 900.0


def run_tool(argv: Sequence[str], java: Java, problem: str) -> None:
    """Run a tool to its end. Raises DownloadError, whose text begins with `problem`, when it fails or hangs."""
    env = os.environ | {"JAVA_HOME": str(java.home)}
    try:
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise DownloadError(f"{problem}: not done within {TIMEOUT_S:g} s.") from error
    if done.returncode != 0:
        raise DownloadError(f"{problem}: {(done.stdout + done.stderr)[-800:]} Is there a network?")
