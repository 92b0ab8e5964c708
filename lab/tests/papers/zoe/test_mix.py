"""Zoe's mix of applications as a trace."""

from pathlib import Path

from click.testing import CliRunner

from quicksilver.simulator.traces.source import Source
from quicksilver_lab.papers.zoe.__main__ import main
from quicksilver_lab.papers.zoe.mix import ZoeMix, applications


def test_applications_are_a_trace_that_keeps_their_core(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--jobs", "40", "--seed", "3", "--load", "0.5", "--interactive", "0.5"])
    path = tmp_path / "trace"
    path.write_text(result.output)
    mix = ZoeMix(applications=40, interactive_ratio=0.5, load=0.5)
    assert list(Source(str(path)).stream()) == list(applications(mix, 3))


def test_what_no_mix_has_is_told() -> None:
    result = CliRunner().invoke(main, ["--load", "nan"])
    assert result.exit_code == 2
    assert "load" in result.output
