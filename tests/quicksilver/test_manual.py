"""`quicksilver help`, `man` and `completion`; every page that an error names can be shown."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from quicksilver.cli import COMMANDS, cli
from quicksilver.manual.pages import docs_root, find_page, lab_docs_root, slug, topics
from quicksilver.manual.roff import escaped, manual
from tests.paths import DOCS, LAB_DOCS, ROOT

PARTS = ("hadoop_rpc", "policies", "quicksilver", "rm_proxy", "sidecar")
POINTER = re.compile(r"\b(?:lab/)?docs/[\w./-]*\w(?:#[\w-]+)?")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), prog_name="quicksilver")


def pointers() -> Iterator[tuple[str, str]]:
    """Yield each page of docs/ and lab/docs/ that a text of the code or of the site files names, with its place."""
    for part in PARTS:
        for path in (ROOT / part).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    for found in POINTER.findall(node.value):
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", found
    for path in (ROOT / "hadoop-conf").rglob("*.xml"):
        for found in POINTER.findall(path.read_text()):
            yield str(path.relative_to(ROOT)), found


def test_every_page_that_a_text_names_is_found_without_a_network() -> None:
    found = [(place, pointer) for place, pointer in pointers() if pointer.endswith(".md") or "#" in pointer]
    assert len(found) > 15 and "docs/security.md" in {pointer for _, pointer in found}
    for place, pointer in found:
        assert find_page(pointer).text, place


def test_the_wheel_has_the_pages() -> None:
    import tomllib

    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert build["force-include"]["docs"] == "quicksilver/docs"
    assert docs_root() == DOCS


def test_the_pages_of_the_lab_are_topics_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    import tomllib

    build = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert build["force-include"]["docs"] == "quicksilver_lab/docs"
    assert lab_docs_root() == LAB_DOCS
    text = (LAB_DOCS / "benchmarks.md").read_text()
    assert {find_page(name).text for name in ("benchmarks", "lab/benchmarks", "lab/docs/benchmarks.md")} == {text}
    assert find_page("index").text == (DOCS / "index.md").read_text()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert lab_docs_root() is None and "lab/benchmarks" not in topics() and "security" in topics()


def test_topics_are_listed_and_shown() -> None:
    listed = call("help").output
    assert all(f"{topic} " in listed for topic in topics()) and "Security" in listed
    assert json.loads(call("help", "--json").output).keys() == topics().keys()
    assert call("help", "docs/security.md").output == (DOCS / "security.md").read_text() + "\n"
    part = json.loads(call("help", "operations#store", "--json").output)
    assert part["title"] == "Store" and part["text"].startswith("## Store\n") and "\n## " not in part["text"][3:]
    assert call("help", "node", "list").output.startswith("Usage: quicksilver node list")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("glosary",), "there is no page 'glosary': did you mean glossary?"),
        (("operations#stroe",), "operations has no part 'stroe': did you mean store?"),
        (("node", "lst"), "there is no page 'node lst'"),
    ],
)
def test_an_unknown_topic_is_one_line(words: tuple[str, ...], error: str) -> None:
    result = call("help", *words)
    assert result.exit_code == 1 and error in result.stderr and result.stderr.count("\n") == 1


def test_a_heading_in_a_block_of_code_is_none() -> None:
    assert slug("`quicksilver install`: what, why") == "quicksilver-install-what-why"
    titles = [line for line in (DOCS / "cli.md").read_text().splitlines() if line.startswith("# ")]
    assert find_page("cli").title == titles[0].removeprefix("# ")


def test_the_manual_page_has_every_command_and_no_warning(tmp_path: Path) -> None:
    text = call("man").output
    for name in COMMANDS:
        assert f'.SS "quicksilver {escaped(name)}' in text, name
    assert '.SS "quicksilver policy what\\-if' in text and '.SH "EXIT STATUS"' in text
    assert text.count("\\-\\-token\\-file FILE") == 1, "the options of the connection stand once"
    groff = shutil.which("groff")
    assert groff is not None, "install groff-base"
    page = tmp_path / "quicksilver.1"
    page.write_text(text)
    done = subprocess.run(
        [groff, "-man", "-Tutf8", "-ww", page], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == "" and "quicksilver node list" in re.sub(r".\x08|\x1b\[\d*m", "", done.stdout)


def test_text_cannot_be_a_request_of_roff() -> None:
    assert escaped(".SH x\\n-y") == "\\&.SH x\\en\\-y"

    @click.group(help="'tis a group.\n\n.SH evil")
    def program() -> None:
        """Do nothing."""

    assert "\n.SH evil" not in manual(program, {}, "x", "1")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_program(shell: str) -> None:
    text = call("completion", shell).output
    assert f"_QUICKSILVER_COMPLETE={shell}_complete" in text and text.startswith("# in ")


@pytest.mark.long
def test_bash_completes_commands_options_and_their_values(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(call("completion", "bash").output)
    ask = (
        'complete() { :; }; source "$1"; COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); '
        '_quicksilver_completion quicksilver; echo "${COMPREPLY[@]}"'
    )

    def complete(*words: str) -> list[str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        command = ["bash", "-c", ask, "bash", script, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60, env={**os.environ, "PATH": path}
        )
        return done.stdout.split()

    assert complete("quicksilver", "no") == ["node"]
    assert "what-if" in complete("quicksilver", "policy", "w")
    assert "--columns" in complete("quicksilver", "node", "list", "--c")
    assert complete("quicksilver", "completion", "z") == ["zsh"]
