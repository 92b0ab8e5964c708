"""Parts of the image builds and of the demo that need no Docker."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from quicksilver_lab.workloads.containers import compose
from quicksilver_lab.workloads.containers.base import suite_of
from quicksilver_lab.workloads.containers.checks import ClusterFacts
from quicksilver_lab.workloads.containers.compose import Compose
from quicksilver_lab.workloads.containers.contexts import fill_from_archive
from quicksilver_lab.workloads.containers.engine import ContainerEngine, engine
from quicksilver_lab.workloads.containers.images import Image
from quicksilver_lab.workloads.containers.jobs import JobRun, check_counts, ended
from quicksilver_lab.workloads.containers.report import image_lines, report, where_to_look
from quicksilver_lab.workloads.errors import JobFailedError, OutputError, WorkloadError


@pytest.mark.parametrize(
    ("os_release", "suite"),
    [
        ('ID=debian\nVERSION_CODENAME=trixie\nVERSION="13"', "trixie"),
        ('ID="debian"\nVERSION_CODENAME="bookworm"', "bookworm"),
        ("ID=ubuntu\nVERSION_CODENAME=noble\nID_LIKE=debian", "bookworm"),
        ("", "bookworm"),
    ],
)
def test_the_suite_is_this_hosts_where_it_is_a_debian(os_release: str, suite: str) -> None:
    assert suite_of(os_release) == suite


def test_counts_are_compared_word_by_word() -> None:
    check_counts("a\t2\nb\t1\n", {"a": 2, "b": 1})
    with pytest.raises(OutputError, match=r"1 words wrong, such as b: 0, not 1"):
        check_counts("a\t2\n", {"a": 2, "b": 1})
    with pytest.raises(OutputError, match="wrong"):
        check_counts("a\t2\nc\t1\n", {"a": 2})


def test_a_job_counts_only_with_an_application_and_a_right_result() -> None:
    text = "Submitted application application_17_0001\nEstimated value of Pi is 3.16\n"
    assert ended("pi 1", 0, text, 2.0) == JobRun("pi 1", "application_17_0001", 2.0)
    assert ended("wordcount", 0, text.splitlines()[0], 2.0).application_id == "application_17_0001"
    with pytest.raises(JobFailedError, match="pi 1: its client ended with 1"):
        ended("pi 1", 1, text, 2.0)
    with pytest.raises(JobFailedError, match="ended with 0"):
        ended("wordcount", 0, "nothing ran", 2.0)
    with pytest.raises(OutputError, match="no estimate of pi"):
        ended("pi 1", 0, text.replace("3.16", "2.9"), 2.0)


def test_an_address_in_use_is_named() -> None:
    with socket.create_server(("127.0.78.1", 8088)):
        assert compose.busy("127.0.78", "229") == ["127.0.78.1:8088"]
        with pytest.raises(WorkloadError, match=r"127\.0\.78\.1:8088 in use; end what listens there, or choose others"):
            Compose(ContainerEngine({}, False), net="127.0.78", ports="229").up()


def test_a_failed_command_shows_its_last_lines() -> None:
    with pytest.raises(WorkloadError, match=r"(?s)`sh -c echo first; echo why >&2; exit 3` failed:.*why"):
        ContainerEngine({}, False).run(["sh", "-c", "echo first; echo why >&2; exit 3"])
    with pytest.raises(WorkloadError, match="no-such-program is missing; install no-such-program"):
        ContainerEngine({}, False).run(["no-such-program"])
    with pytest.raises(WorkloadError, match=r"not done after 0\.1 s"):
        ContainerEngine({}, False).run(["sleep", "5"], timeout_s=0.1)


def test_commands_talk_to_the_engine_that_was_given() -> None:
    assert ContainerEngine({"DOCKER_HOST": "unix:///x"}, False).run(["sh", "-c", 'echo "$DOCKER_HOST"']) == "unix:///x"


def test_a_daemon_that_answers_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\necho answers\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with engine(lambda _: None) as found:
        assert not found.private and found.docker("version") == "answers"


def test_an_archive_without_the_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "README").write_text("x")
    archive = tmp_path / "a.tar.gz"
    subprocess.run(["tar", "-C", str(tmp_path), "-czf", str(archive), "tree"], check=True)
    with pytest.raises(WorkloadError, match="it has no bin/quicksilver; name one of `make packages`"):
        fill_from_archive(tmp_path / "target", archive)


def test_an_archive_is_unpacked_with_the_health_check(tmp_path: Path) -> None:
    (tmp_path / "tree" / "bin").mkdir(parents=True)
    (tmp_path / "tree" / "bin" / "quicksilver").write_text("#!/bin/sh\n")
    archive = tmp_path / "a.tar.gz"
    subprocess.run(["tar", "-C", str(tmp_path), "-czf", str(archive), "tree"], check=True)
    fill_from_archive(tmp_path / "target", archive)
    assert sorted(path.name for path in (tmp_path / "target").iterdir()) == ["bin", "healthcheck.py"]


DELAY = {"count": 3, "p50_s": 0.5, "p95_s": 1.25, "max_s": 2.0}
NONE = {"count": 0, "p50_s": None, "p95_s": None, "max_s": None}


def found(limits: list[str]) -> ClusterFacts:
    summary = {
        "guaranteed": 0,
        "queueable": 3,
        "nodes": [{"node_id": "node1:22110", "guaranteed": 0, "queueable": 3}],
        "allocation_g": NONE,
        "allocation_q": DELAY,
        "queueing": DELAY,
    }
    return ClusterFacts(summary, frozenset({"node1:8391"}), {"grants": 3}, {"proxy": "10001"}, {"node1": limits})


def test_the_report_says_what_ran_and_why_signals_shrink() -> None:
    lines = report([JobRun("pi 1", "application_1_0001", 12.34)], found(["resizer cgroup1: read-only"]))
    text = "\n".join(lines)
    assert "pi 1         12.3 s  application_1_0001" in text
    assert "0 guaranteed (G), 3 queueable (Q): node1 0 G 3 Q" in text
    assert "G none; Q p50 0.50 s, p95 1.25 s (3)" in text
    assert "by signals, because:\n  resizer cgroup1: read-only" in text
    assert "by control groups" in "\n".join(report([], found([])))


def test_the_report_names_images_and_pages() -> None:
    assert image_lines([Image("quicksilver/proxy:1", 269.4, 17.8, "10001:10001")])[1:] == [
        "  quicksilver/proxy:1   269 MB   17.8 s  user 10001:10001"
    ]
    lines = where_to_look(Compose(ContainerEngine({"DOCKER_HOST": "unix:///x"}, True), net="127.0.9"))
    assert lines[1].split() == ["quicksilver", "http://127.0.9.1:8390/ui"]
    assert lines[-1].split() == ["containers", "DOCKER_HOST=unix:///x", "docker", "ps"]
