"""What is an extra and not installed is said with the command that brings it, before anything begins."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from quicksilver.common.errors import QuicksilverError, SettingsError
from quicksilver.common.extras import EXTRAS, missing
from quicksilver.common.store.engine import checked_url
from quicksilver.simulator.results import needs
from quicksilver.simulator.traces.formats.jhist import read_jhist
from quicksilver.simulator.traces.lines import TraceError
from sidecar.resizer.probe import choose
from tests.paths import ROOT


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the packages of all extras."""
    for package in EXTRAS:
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("quicksilver.common.extras.find_spec", lambda name: None)


def test_each_is_an_extra_of_the_distribution() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for package, extra in EXTRAS.items():
        assert any(line.partition(">")[0].partition("[")[0] == package for line in extras[extra])
        assert missing(package) == ""


@pytest.mark.usefixtures("bare")
def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"proxy.store_url: PostgreSQL needs psycopg.*yarn-quicksilver\[postgres\]"):
        checked_url("postgresql://u@h/d", "proxy.store_url")
    chosen = choose("docker")
    assert chosen.resizer is None or chosen.resizer.name in ("cgroup1", "cgroup2", "signals")
    assert "yarn-quicksilver[docker]" in chosen.why_not["docker"]
    with pytest.raises(QuicksilverError, match=r"no Parquet without pyarrow; run pip install 'yarn-quicksilver\[parq"):
        needs(["parquet"], tmp_path)
    file = tmp_path / "job.jhist"
    file.write_bytes(b"Avro-Binary\n{}\n")
    with pytest.raises(TraceError, match=r"job.jhist: is in Avro's binary form.*yarn-quicksilver\[avro\]"):
        list(read_jhist(file))
