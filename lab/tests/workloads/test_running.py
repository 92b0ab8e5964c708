"""Clients as processes, the command lines, and what goes wrong before a cluster is there."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import requests
from click.testing import CliRunner

from quicksilver_lab.workloads import environment, spark
from quicksilver_lab.workloads.clients import Client, Clients
from quicksilver_lab.workloads.distributed_shell import ShellResult, shell_is_right
from quicksilver_lab.workloads.environment import Where, finish, one_line_errors, running
from quicksilver_lab.workloads.errors import JobFailedError, OutputError, WorkloadError
from quicksilver_lab.workloads.records import GUARANTEED, OPPORTUNISTIC, RecordTally
from quicksilver_lab.workloads.rest import eventually
from quicksilver_lab.workloads.spark import SparkOutcome, is_right

MODULES = ("wordcount", "gridmix", "spark", "distributed_shell")


@pytest.fixture
def client(tmp_path: Path) -> Callable[[str], Client]:
    def start(program: str) -> Client:
        log = tmp_path / "client.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", program], stdout=output, stderr=subprocess.STDOUT, text=True
            )
        return Client("client", process, log)

    return start


def test_a_client_that_succeeds(client: Callable[[str], Client]) -> None:
    seen: list[str] = []
    started = client("print('Running job: job_1_0001')")
    text = started.wait(each=lambda: seen.append(started.text))
    assert text == seen[-1] == "Running job: job_1_0001\n"
    assert started.wall_s == started.wall_s > 0


def test_a_client_that_fails_shows_the_end_of_its_output(client: Callable[[str], Client]) -> None:
    with pytest.raises(
        JobFailedError, match=r"client: exit code 3; the end of its output:\n  nothing works; read .*log"
    ):
        client("import sys; print('nothing works'); sys.exit(3)").wait()


def test_a_client_that_hangs_is_ended(client: Callable[[str], Client]) -> None:
    started = client("import time; time.sleep(60)")
    with pytest.raises(JobFailedError, match=r"not done after 0\.3 s"):
        started.wait(timeout_s=0.3)
    assert started.process.poll() is not None


def test_an_interrupted_wait_ends_the_client(client: Callable[[str], Client]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    started = client("import time; time.sleep(60)")
    with pytest.raises(KeyboardInterrupt):
        started.wait(each=interrupt)
    assert started.process.poll() is not None


def test_clients_that_still_run_are_ended_together(client: Callable[[str], Client]) -> None:
    with Clients() as together:
        started = together.add(client("import time; time.sleep(60)"))
        assert started.poll() is None
    assert started.process.poll() is not None


def test_eventually_takes_errors_for_not_yet() -> None:
    answers = iter([None, requests.ConnectionError("refused"), 7])

    def ask() -> int | None:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert eventually("it", ask) == 7


def test_eventually_says_what_did_not_come() -> None:
    def ask() -> None:
        raise requests.ConnectionError("refused")

    with pytest.raises(OutputError, match=r"the page: not there after 0 s; the last answer: refused"):
        eventually("the page", ask, timeout_s=0)


def test_spark_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="no such Python; run `make spark`"):
        spark.find_spark(tmp_path / "python")
    bare = tmp_path / "bare"
    bare.write_text(f"#!/bin/sh\nexec {sys.executable} -S -I -c 'import pyspark'\n")
    bare.chmod(0o755)
    with pytest.raises(WorkloadError, match="pyspark cannot be imported there"):
        spark.find_spark(bare)


@pytest.mark.parametrize("module", MODULES)
def test_command_lines(module: str) -> None:
    main = importlib.import_module(f"quicksilver_lab.workloads.{module}").main
    told = CliRunner().invoke(main, ["--help"])
    assert told.exit_code == 0
    for option in ("--plain", "--keep", "--base-port", "--workdir", "--route"):
        assert option in told.output
    wrong = CliRunner().invoke(main, ["--route", "only_x"])
    assert wrong.exit_code == 2
    assert "'only_x' is not one of" in wrong.output


def test_a_port_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    @click.command()
    @one_line_errors
    def command() -> None:
        with running(Where(tmp_path, 32_700, plain=True, keep=False, route="only_q")):
            raise AssertionError("no cluster can start there")

    told = CliRunner().invoke(command, [])
    assert told.exit_code == 1
    assert "choose a lower base_port" in told.output
    assert "Traceback" not in told.output


def test_sigterm_ends_the_work_as_ctrl_c_does() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), environment.interruptible():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_result_is_the_last_line_and_sets_the_exit_code() -> None:
    @click.command()
    @click.option("--ok/--no-ok", required=True)
    def command(ok: bool) -> None:
        click.echo("text")
        finish({"jobs": 6}, ok)

    good, bad = (CliRunner().invoke(command, [option]) for option in ("--ok", "--no-ok"))
    assert (good.exit_code, bad.exit_code) == (0, 1)
    assert json.loads(good.output.splitlines()[-1]) == json.loads(bad.output.splitlines()[-1]) == {"jobs": 6}


PLAIN_ENV = environment.Environment(cluster=None, stack=None, progress=print)  # type: ignore[arg-type]
STACK_ENV = environment.Environment(cluster=None, stack=object(), progress=print)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("env", "route", "opportunistic", "wrong_words", "right"),
    [
        (STACK_ENV, "only_q", 3, 0, True),
        (STACK_ENV, "only_q", 2, 0, False),
        (STACK_ENV, "only_q", 3, 1, False),
        (STACK_ENV, "only_g", 0, 0, True),
        (STACK_ENV, "only_g", 1, 0, False),
        (STACK_ENV, "hybrid_gq", 2, 0, True),
        (PLAIN_ENV, "only_q", 0, 0, True),
        (PLAIN_ENV, "only_q", 3, 0, False),
    ],
)
def test_executors_must_be_as_the_route_says(
    env: environment.Environment, route: str, opportunistic: int, wrong_words: int, right: bool
) -> None:
    where = Where(Path(), 18000, plain=env.stack is None, keep=False, route=route)
    told = RecordTally(3, opportunistic, 3, opportunistic, {}, ())
    assert is_right(env, where, SparkOutcome("application_1_0001", 1.0, wrong_words, told), executors=3) is right


@pytest.mark.parametrize(
    ("env", "route", "asked", "opportunistic", "right"),
    [
        (STACK_ENV, "only_g", GUARANTEED, 0, True),
        (STACK_ENV, "only_g", GUARANTEED, 1, False),
        (STACK_ENV, "only_g", OPPORTUNISTIC, 4, True),
        (STACK_ENV, "only_g", OPPORTUNISTIC, 3, False),
        (STACK_ENV, "only_q", GUARANTEED, 4, True),
        (STACK_ENV, "only_q", GUARANTEED, 1, True),
        (STACK_ENV, "only_q", GUARANTEED, 0, False),
        (STACK_ENV, "hybrid_gq", GUARANTEED, 0, True),
        (PLAIN_ENV, "only_q", GUARANTEED, 0, True),
        (PLAIN_ENV, "only_q", GUARANTEED, 1, False),
        (PLAIN_ENV, "only_q", OPPORTUNISTIC, 4, True),
    ],
)
def test_shell_containers_must_be_as_application_and_route_say(
    env: environment.Environment, route: str, asked: str, opportunistic: int, right: bool
) -> None:
    where = Where(Path(), 18000, plain=env.stack is None, keep=False, route=route)
    told = RecordTally(4, opportunistic, 4, opportunistic, {}, ())
    marks = frozenset(f"container_1_0001_01_00000{number}" for number in range(2, 6))
    assert shell_is_right(env, where, ShellResult("application_1_0001", asked, 4, marks, 1.0, told)) is right
    silent = ShellResult("application_1_0001", asked, 4, frozenset(), 1.0, told)
    assert not shell_is_right(env, where, silent)
