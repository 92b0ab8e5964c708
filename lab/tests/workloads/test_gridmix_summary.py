"""GridMix's summary, read from the output of a real run."""

import pytest

from quicksilver_lab.workloads.errors import OutputError
from quicksilver_lab.workloads.gridmix_run import GridmixPlan, gridmix_arguments
from quicksilver_lab.workloads.gridmix_summary import finished_jobs, parse_summary, seconds
from tests.paths import DATA

OUTPUT = (DATA / "workloads" / "gridmix.txt").read_text()


def test_the_figures_of_a_real_run() -> None:
    summary = parse_summary(OUTPUT)
    assert (summary.in_trace, summary.processed, summary.successful) == (6, 6, 6)
    assert (summary.failed, summary.lost) == (0, 0)
    assert (summary.maps, summary.reduces) == (15, 8)
    assert (summary.runtime_s, summary.simulation_s) == (70, 51)
    assert summary.policy == "STRESS"
    assert summary.all_successful
    assert summary.text.startswith("Execution Summary:-")
    assert "Max reduce task capacity: 6" in summary.text


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("jobs in trace: 6", "jobs in trace: 7"),
        ("jobs in trace: 6", "jobs in trace: 0"),
        ("successful jobs: 6", "successful jobs: 5"),
        ("jobs processed: 6", "jobs processed: 5"),
    ],
)
def test_a_job_that_is_missing_anywhere_is_noticed(line: str, instead: str) -> None:
    assert line in OUTPUT
    assert not parse_summary(OUTPUT.replace(line, instead)).all_successful


def test_output_without_a_summary_is_an_error() -> None:
    with pytest.raises(OutputError, match="no execution summary"):
        parse_summary(OUTPUT.split("Execution Summary")[0])
    with pytest.raises(OutputError, match="no line `Total number of lost jobs`"):
        parse_summary(OUTPUT.replace("Total number of lost jobs", "Total number of found jobs"))


@pytest.mark.parametrize(
    ("text", "expected"), [("51sec", 51), ("1mins, 10sec", 70), ("2hrs, 0mins, 5sec", 7205), ("", 0)]
)
def test_hadoops_times(text: str, expected: int) -> None:
    assert seconds(text) == expected


def test_jobs_are_seen_as_they_end() -> None:
    jobs = finished_jobs(OUTPUT)
    assert jobs["GRIDMIX_GENERATE_INPUT_DATA"] == ("job_1795250988489_0007", "success")
    assert jobs["GRIDMIX000002"] == ("job_1795250988489_0010", "success")


def test_arguments() -> None:
    made = gridmix_arguments(GridmixPlan(policy="SERIAL", job_type="SLEEPJOB"), "/io", "file:///trace.json")
    assert made[-4:] == ["-generate", "2m", "/io", "file:///trace.json"]
    assert "-Dgridmix.job-submission.policy=SERIAL" in made
    assert "-Dgridmix.job.type=SLEEPJOB" in made
    ready = gridmix_arguments(GridmixPlan(data_mb=0), "/io", "file:///trace.json")
    assert "-generate" not in ready
    assert "-Dgridmix.compression-emulation.enable=false" in ready
