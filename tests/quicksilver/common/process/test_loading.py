"""What a daemon imports before it serves: not what only commands, other stores or rare events need."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

import pytest

from quicksilver.common.extras import EXTRAS
from quicksilver.common.process.loading import loading, without
from tests.paths import ROOT


def imported(modules: str) -> set[str]:
    """Return the modules that a new process has loaded after it imported these."""
    code = f"import {modules}, json, sys; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("modules", "not_needed"),
    [
        ("sidecar.cli", {*EXTRAS, "sqlalchemy"}),
        ("quicksilver.doctor.cli, quicksilver.policy.cli, quicksilver.setup.init_cli", {*EXTRAS}),
        ("quicksilver.doctor.install_cli, rm_proxy.cli.commands", {*EXTRAS}),
        ("sidecar.tracker.cli", {"aiohttp", "fastapi", "requests", "rich", "uvicorn"}),
        (
            "rm_proxy.cli.bypass, rm_proxy.service.process",
            {"aiohttp", "alembic", "docker", "rich", "sqlalchemy.dialects.postgresql"},
        ),
        (
            "quicksilver.cli",
            {"fastapi", "importlib.metadata", "pydantic", "requests", "rich"},
        ),
        (
            "quicksilver.process.start, quicksilver.common.process.interpreter, quicksilver.process.supervisor",
            {"click", "dataclasses", "pathlib", "typing"},
        ),
    ],
)
def test_a_daemon_does_not_import_what_it_does_not_use(modules: str, not_needed: set[str]) -> None:
    assert not imported(modules) & not_needed


def test_the_collector_is_off_while_loading_alone() -> None:
    before = gc.get_freeze_count()
    with loading():
        assert not gc.isenabled()
        with loading():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > before


def test_a_package_seems_absent() -> None:
    code = """
from quicksilver.common.process.loading import without
with without("colorsys"):
    try:
        import colorsys
    except ImportError:
        print("absent")
import colorsys
with without("colorsys"):
    import colorsys
print("there")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["absent", "there"]
    with without("pytest"):
        import pytest as loaded
    assert loaded is pytest
