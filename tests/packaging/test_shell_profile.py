"""`yarn quicksilver`: the shell profile, in a `yarn` that reads profiles and finds commands as Hadoop 3's own does."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.paths import ROOT

PROFILE = ROOT / "hadoop-conf" / "shellprofile.d" / "quicksilver.sh"
YARN = """#!/usr/bin/env bash
# The parts of Hadoop 3's bin/yarn and hadoop-functions.sh on which a profile depends.
HADOOP_SHELL_EXECNAME="yarn"
function hadoop_error { echo "$*" 1>&2; }
function hadoop_add_subcommand { printf '%-20s %s %s\\n' "$1" "$2" "$3" >> "${HADOOP_CONF_DIR}/usage"; }
for i in "${HADOOP_CONF_DIR}"/shellprofile.d/*.sh; do . "${i}"; done
HADOOP_SUBCMD=$1
shift
HADOOP_SUBCMD_ARGS=("$@")
if declare -f yarn_subcommand_"${HADOOP_SUBCMD}" >/dev/null 2>&1; then
  "yarn_subcommand_${HADOOP_SUBCMD}" "${HADOOP_SUBCMD_ARGS[@]}"
else
  hadoop_error "ERROR: ${HADOOP_SUBCMD} is not COMMAND nor fully qualified CLASSNAME."
  exit 1
fi
"""
PROGRAM = """#!/usr/bin/env bash
printf '%s|' "$@" "${HADOOP_CONF_DIR}"
exit 7
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """Hadoop's configuration with the profile; `yarn` and a `quicksilver` that says what it got are beside it."""
    folder = tmp_path / "conf"
    (folder / "shellprofile.d").mkdir(parents=True)
    (folder / "shellprofile.d" / "quicksilver.sh").write_text(PROFILE.read_text())
    (tmp_path / "bin").mkdir()
    for path, text in ((tmp_path / "yarn", YARN), (tmp_path / "bin" / "quicksilver", PROGRAM)):
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder


def yarn(conf: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": "/usr/bin:/bin", "HADOOP_CONF_DIR": str(conf), **env}
    command = [str(conf.parent / "yarn"), *arguments]
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=10, check=False)


def test_arguments_and_the_exit_code_pass(conf: Path) -> None:
    done = yarn(conf, "quicksilver", "node", "show", "a b", PATH=f"{conf.parent / 'bin'}{os.pathsep}/usr/bin:/bin")
    assert (done.stdout, done.stderr, done.returncode) == (f"node|show|a b|{conf}|", "", 7)
    assert (conf / "usage").read_text().split()[:2] == ["quicksilver", "client"]


def test_another_installation_can_be_named(conf: Path) -> None:
    done = yarn(conf, "quicksilver", "health", QUICKSILVER_HOME=str(conf.parent))
    assert (done.stdout, done.returncode) == (f"health|{conf}|", 7)


def test_a_missing_program_is_said(conf: Path) -> None:
    done = yarn(conf, "quicksilver", "health", QUICKSILVER_HOME="/nowhere")
    assert done.returncode == 1
    assert done.stderr == (
        "quicksilver: error: /nowhere/bin/quicksilver: not found; install yarn-quicksilver, or set QUICKSILVER_HOME\n"
    )
