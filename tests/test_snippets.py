"""Every fenced block of the pages is of a known kind, and is checked by its kind.

yaml: a part of quicksilver.yaml, checked by `policy check`; with a `title` the file of the tree that has this text,
or quicksilver.yaml, or group_vars/all.yml with variables of the Ansible role; a comment `<!-- test: mistakes -->`
above it says that it is wrong. sh, console: commands that the program, the Makefile and the units know. output: what
the block above prints. syntax: a synopsis whose options exist. picture: a drawing of characters. xml, toml, python:
parsed, and run.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from quicksilver.cli import cli
from tests.paths import DOCS, LAB_DOCS, ROOT
from tests.snippets import (
    Block,
    blocks,
    command_lines,
    make_targets,
    options_of,
    parse,
    quicksilver_calls,
    shell_text,
)

PAGES: Final = [
    *sorted(DOCS.glob("*.md")),
    *sorted(LAB_DOCS.glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
]
BLOCKS: Final = [block for page in [*PAGES, ROOT / "hadoop-conf" / "README.md"] for block in blocks(page)]
# fmt: off
OTHER_PROGRAMS: Final = frozenset((
    "ansible-playbook", "apt", "apt-get", "awk", "bash", "cat", "cd", "cp", "curl", "dnf", "docker",
    "docker-compose", "done", "dpkg", "du", "echo", "eval", "export", "for", "git", "grep", "hadoop", "install",
    "journalctl", "kill", "ln", "ls", "mkdir", "mv", "pip", "promtool", "python", "python3", "rm", "rpm", "rsync",
    "scp", "sh", "ambari-server", "aws", "gcloud", "helm", "kubectl",
    "sha256sum", "sleep", "source", "spark-submit", "ssh", "sudo", "tail", "tar", "test", "until", "wait", "yarn",
    "xz", "yum", "zypper",
))
# fmt: on
"""Programs and words of the shell that the pages use and that are not checked farther."""
HARMLESS: Final = (
    ("policy", "presets"),
    ("policy", "list"),
    ("policy", "show"),
    ("policy", "schema"),
    ("trace", "generators"),
    ("simulate", "--list"),
    ("simulate", "--describe"),
    ("bench", "list"),
    ("certs", "init"),
    ("certs", "proxy"),
    ("certs", "node"),
    ("--version",),
)
"""Commands that need neither a cluster nor a network: they are run, one after the other, in a folder of their own."""


def of(*kinds: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return pytest.mark.parametrize("block", [b for b in BLOCKS if b.kind in kinds], ids=lambda b: b.place)


def test_each_block_has_a_kind_that_is_checked() -> None:
    kinds = {"yaml", "xml", "toml", "python", "sh", "console", "output", "syntax", "picture", "mermaid"}
    assert [f"{block.place}: {block.kind!r}" for block in BLOCKS if block.kind not in kinds] == []
    assert len(BLOCKS) > 100


@of("output")
def test_an_output_follows_what_prints_it(block: Block) -> None:
    assert block.text.strip()
    assert block.after in ("sh", "console", "syntax", "yaml", "output"), f"{block.place}: the output of what?"


@of("yaml")
def test_settings_are_right(block: Block, tmp_path: Path) -> None:
    title = block.attributes.get("title", "quicksilver.yaml")
    if title == "group_vars/all.yml":
        variables = YAML(typ="safe").load((ROOT / "deploy/ansible/roles/quicksilver/defaults/main.yml").read_text())
        assert YAML(typ="safe").load(block.text).keys() <= variables.keys()
        return
    if not title.endswith("quicksilver.yaml"):
        assert block.text in (ROOT / title).read_text(), f"{block.place}: {title} has another text"
        return
    whole = block.text if re.search(r"^policies:", block.text, re.M) else block.text + "policies: {}\n"
    file = tmp_path / "quicksilver.yaml"
    file.write_text(whole)
    done = CliRunner().invoke(cli, ["policy", "check", str(file)])
    assert done.exit_code == (1 if "mistakes" in block.attributes else 0), done.output


@of("sh", "console")
def test_commands_are_right(block: Block) -> None:
    text = shell_text(block)
    assert subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True).stderr == ""
    for args in quicksilver_calls(text):
        try:
            parse(args)
        except click.UsageError as error:
            pytest.fail(f"{block.place}: quicksilver {shlex.join(args)}: {error.format_message()}")
    for line in command_lines(text):
        check_other(block, line)


def check_other(block: Block, line: str) -> None:
    """Check the first word of a line, and what is known of its arguments."""
    words = shlex.split(line, comments=True)
    while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0]):  # a variable for the command, or of the shell
        words.pop(0)
    if words and words[0].endswith("/bin/quicksilver"):
        words[0] = "quicksilver"
    if not words or (words[0] in ("quicksilver", *OTHER_PROGRAMS) and words[0] != "python"):
        return
    if words[0] == "make":
        assert words[1] in make_targets(), f"{block.place}: make has no target {words[1]}"
        given = " ".join(word.removeprefix("ARGS=") for word in words[2:] if word.startswith("ARGS="))
        check_options(block, make_targets()[words[1]], given.split())
    elif words[0] == "python":
        if words[1] == "-m":
            check_options(block, words[2], words[3:])
    elif words[0] == "systemctl":
        units = {unit.stem for unit in (ROOT / "hadoop-conf" / "systemd").glob("*.service")}
        own = [word for word in words[1:] if word.startswith("quicksilver")]
        assert {name.removesuffix(".service") for name in own} <= units, f"{block.place}: no such unit: {line}"
    else:
        pytest.fail(f"{block.place}: {words[0]!r} is neither known nor listed")


def check_options(block: Block, module: str, args: list[str]) -> None:
    given = {arg.partition("=")[0] for arg in args if arg.startswith("--")}
    assert not given or module, f"{block.place}: the target takes no ARGS"
    assert given <= (options_of(module) if given else set()), f"{block.place}: {module} has none of these: {given}"


def test_harmless_commands_run_and_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = 0
    for number, block in enumerate(BLOCKS):
        calls = quicksilver_calls(shell_text(block)) if block.kind in ("sh", "console") else []
        chosen = [args for args in calls if any(tuple(args[: len(each)]) == each for each in HARMLESS)]
        chosen = [args for args in chosen if "--renew" not in args]  # of what an earlier block made
        if chosen:
            monkeypatch.chdir(files_of_examples(tmp_path / str(number)))
        for args in chosen:
            done = CliRunner().invoke(cli, args, catch_exceptions=False)
            assert done.exit_code == 0 and done.output.strip(), f"quicksilver {shlex.join(args)}: {done.output}"
            run += 1
    assert run >= 6


def files_of_examples(folder: Path) -> Path:
    """Return a new folder with the files that commands on the pages read."""
    folder.mkdir()
    for name in ("FILE", "hosts"):
        (folder / name).write_text(f"{name.lower()}1.example.com 10.0.0.1\n")
    return folder
