"""The tutorial from its first block to its last on a real cluster, and the Python of cluster.md and workloads.md."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.ports import free_base_port
from tests.paths import DOCS, LAB_DOCS
from tests.snippets import Block, blocks, missing

pytestmark = pytest.mark.hadoop
TUTORIAL: Final = DOCS / "tutorial.md"
_BLOCK: Final = "=== block of line "
LIMIT_S: Final = 1500
"""Seconds for the whole tutorial; on two quiet cores it takes 415."""


def script(base: int, rest: int, folder: Path) -> str:
    """Return the tutorial as one script: settings are written, commands run, and each block begins with its line."""
    lines = ["set -u", f"cd {folder}"]
    for block in blocks(TUTORIAL):
        if block.kind == "yaml":
            text = block.text.replace("proxy:\n", f"proxy:\n  rest_listen: 127.0.0.1:{rest}\n")
            text = text.replace("sidecar:\n", f"sidecar:\n  proxy_url: http://127.0.0.1:{rest}\n")
            lines += [f"cat > {block.attributes['title']} <<'END'", text + "END"]
        elif block.kind == "sh":
            text = block.text.replace("cluster start\n", f"cluster start --base-port {base}\n")
            text = re.sub(r"(127\.0\.0\.1\d:)181(\d)0", lambda m: f"{m[1]}{base + 90 + 10 * (int(m[2]) + 1)}", text)
            kept = [line for line in text.splitlines() if not re.match(r"make setup|export PATH", line)]
            lines += [f"echo '{_BLOCK}{block.line}'", *kept]
    return "\n".join(lines) + "\n"


def printed(output: str) -> dict[int, str]:
    """Return what each block printed, by its line."""
    parts = re.split(rf"^{_BLOCK}(\d+)$", output, flags=re.MULTILINE)
    return {int(line): text for line, text in zip(parts[1::2], parts[2::2], strict=True)}


def run_tutorial(folder: Path, base: int, rest: int) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "QUICKSILVER_URL": f"http://127.0.0.1:{rest}"}
    command = ["bash", "-c", script(base, rest, folder)]
    begun = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        return begun.communicate(timeout=LIMIT_S)[0]
    except BaseException:
        os.killpg(begun.pid, signal.SIGKILL)  # a command of the cluster that goes on would keep its lock
        begun.wait()
        raise


@pytest.mark.long
@pytest.mark.timeout(LIMIT_S + 120)
def test_the_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    base = free_base_port()
    try:
        output = run_tutorial(tmp_path, base, base + 40)
    finally:
        for pid in (tmp_path / "run" / "tutorial").glob("*.pid"):
            subprocess.run(["kill", pid.read_text().strip()], capture_output=True)
        if (tmp_path / "run" / "cluster" / "cluster.json").exists():
            Cluster.attach(tmp_path / "run" / "cluster").stop()
    real = printed(output)
    lacking: list[str] = []
    before: Block | None = None
    for block in blocks(TUTORIAL):
        if block.kind == "output":
            assert before is not None
            lacking += [f"line {block.line}: {line}" for line in missing(block.text, real[before.line])]
        before = block
    assert lacking == [], output


@pytest.mark.long
def test_the_python_of_the_pages_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (own,) = (block for block in blocks(LAB_DOCS / "cluster.md") if block.kind == "python")
    (attached,) = (block for block in blocks(LAB_DOCS / "workloads.md") if block.kind == "python")
    first, rest = own.text.replace("20000", str(free_base_port())).split("cluster.restart_yarn(", 1)
    names: dict[str, Any] = {}
    try:
        exec(first, names)
        exec(attached.text.replace("run/cluster", "run/mine"), {})
        assert names["done"].returncode == 0, names["done"].stdout
        exec("cluster.restart_yarn(" + rest, names)
        assert not names["cluster"].status().running
    finally:
        names["cluster"].stop()
        if "job" in names:  # a client of the cluster that is gone
            names["job"].kill()
            names["job"].communicate()
