"""Dask by `quicksilver app run` through proxy and sidecars: its elastic workers are queueable under the preset `zoe`.

With QUICKSILVER_COMPATIBILITY in the environment the outcome becomes a cell of the table in docs/compatibility.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quicksilver.cli import cli
from quicksilver_apps.client.records import HOME
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.compatibility import recorded
from quicksilver_lab.workloads.records import RecordsWatch
from tests.paths import ROOT
from tests.real.applications.test_examples import environment, log
from tests.real.policies.test_admission import admitting

pytestmark = [pytest.mark.hadoop, pytest.mark.long, pytest.mark.timeout(600)]
SCRATCH = Path("/tmp/dask-scratch-space")
"""Where Dask keeps its files unless an application says otherwise."""
APPLICATION = re.compile(r"application_\d+_\d+")


def test_elastic_workers_are_queueable(
    overlay_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(overlay_cluster.conf_dir))
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    python = environment(tmp_path / "dask", "dask", "distributed")
    existed = SCRATCH.exists()
    values = [f"python={python}", "elastic-workers=2"]

    def program(*arguments: object) -> Result:
        return CliRunner().invoke(cli, ["app", *map(str, arguments)], catch_exceptions=False)

    with (
        admitting(overlay_cluster, vcores=4),
        recorded("3.4.2", "Dask by quicksilver app", "Q"),
        RecordsWatch(overlay_cluster) as watch,
    ):
        result = program("run", ROOT / "examples" / "dask", *(part for value in values for part in ("--set", value)))
        printed = log(program, result, "job")
        assert re.search(r"60 tasks in .* 3 workers at the end; the sum is 70210", printed), printed
        match = APPLICATION.search(result.output)
        assert match, result.output
        tally = watch.tally(match[0])
        assert (tally.granted, tally.rm_opportunistic, tally.nm_opportunistic) == (5, 2, 2), tally
        assert tally.disagreeing == ()
    assert not SCRATCH.exists() or existed
