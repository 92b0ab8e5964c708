"""The Ansible role without a cluster: its syntax, its settings, and what it does to a folder of this machine."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from tests.paths import DOCS, ROOT

ANSIBLE: Final = ROOT / "deploy" / "ansible"
ROLE: Final = ANSIBLE / "roles" / "quicksilver"
PLAYBOOKS: Final = sorted(path.name for path in ANSIBLE.glob("*.yml") if "inventory" not in path.name)
YARN_SITE: Final = """\
<?xml version="1.0"?>
<configuration>
  <!-- the admin's own words -->
  <property><name>yarn.resourcemanager.hostname</name><value>localhost</value></property>
  <property><name>yarn.nodemanager.hostname</name><value>localhost</value></property>
</configuration>
"""
PLAY: Final = """\
- hosts: all
  gather_facts: false
  tasks:
    - import_role: {name: quicksilver, tasks_from: certificates}
      tags: [certificates]
    - import_role: {name: quicksilver, tasks_from: settings}
    - import_role: {name: quicksilver, tasks_from: site_files}
      vars: {quicksilver_site_role: nodemanager}
"""
SKIP: Final = ("--skip-tags", "certificates")
RECAP: Final = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.M)


def playbook(*arguments: str | Path, cwd: Path = ANSIBLE) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("ansible-playbook")
    own = {
        "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
        "ANSIBLE_LOCAL_TEMP": str(cwd / ".ansible"),
        "LC_ALL": "C.UTF-8",
    }
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "QUICKSILVER_"))}
    command = [program, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=env | own, capture_output=True, text=True, timeout=300, check=False)


def changed(done: subprocess.CompletedProcess[str]) -> int:
    """Return how many tasks of a run that worked changed something."""
    assert done.returncode == 0, done.stdout + done.stderr
    counts = RECAP.findall(done.stdout)
    assert counts and all((unreachable, failed) == ("0", "0") for *_, unreachable, failed in counts)
    return sum(int(count[2]) for count in counts)


def defaults() -> dict[str, Any]:
    return dict(YAML(typ="safe").load((ROLE / "defaults" / "main.yml").read_text()))


def options() -> dict[str, dict[str, Any]]:
    return dict(
        YAML(typ="safe").load((ROLE / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    )


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROLE / "library" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_each_playbook_is_one_for_ansible(tmp_path: Path) -> None:
    assert PLAYBOOKS == ["canary.yml", "resourcemanagers.yml", "rollback.yml", "rolling_nodes.yml", "site.yml"]
    inventory = ANSIBLE / "inventory.example.yml"
    done = playbook("--syntax-check", "-i", inventory, *(ANSIBLE / name for name in PLAYBOOKS), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ERROR" not in done.stdout + done.stderr


def test_the_docs_and_the_specification_have_each_variable() -> None:
    known, described = defaults(), options()
    assert known.keys() == described.keys() and len(known) > 25
    text = (DOCS / "ansible.md").read_text()
    rows = [f"| `{name}` | `{shown(known[name])}` | {one['description']} |" for name, one in described.items()]
    assert [row for row in rows if row not in text] == []
    assert set(re.findall(r"^\| `(quicksilver_\w+)` \| `", text, re.M)) == known.keys()


def shown(value: Any) -> str:
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else (str(value) or '""')


def test_each_variable_is_used() -> None:
    files = [
        path
        for path in ROLE.rglob("*")
        if path.is_file() and path.parent.name in ("tasks", "templates", "vars", "defaults")
    ]
    text = "\n".join(path.read_text() for path in files)
    names = {name: len(re.findall(rf"\b{name}\b", text)) for name in defaults()}
    assert [name for name, count in names.items() if count < 2] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="the role gives files to root")
class TestFolder:
    """A node whose folders are all in one of the test's own; this machine has no other part in it."""

    @pytest.fixture
    def arguments(self, tmp_path: Path) -> list[str | Path]:
        conf, etc = tmp_path / "conf", tmp_path / "etc"
        for folder in (conf, etc / "tls", etc / "ansible"):
            folder.mkdir(parents=True)
        (conf / "yarn-site.xml").write_text(YARN_SITE)
        program = tmp_path / "quicksilver"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m quicksilver "$@"\n')
        program.chmod(0o755)
        values = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "quicksilver_program": str(program),
            "quicksilver_group": "root",
            "quicksilver_tls_group": "root",
            "quicksilver_etc": str(etc),
            "quicksilver_hadoop_conf_dir": str(conf),
            "quicksilver_certificates_host": "localhost",
            "quicksilver_certificates_dir": str(tmp_path / "ca"),
        }
        hosts = {"localhost": values}
        groups = {
            "quicksilver_nodes": {"hosts": hosts},
            "quicksilver_resourcemanagers": {"hosts": {"rm.example": values}},
        }
        with (tmp_path / "inventory.yml").open("w") as file:
            YAML().dump({"all": {"children": groups}}, file)
        (tmp_path / "play.yml").write_text(PLAY)
        return ["-i", tmp_path / "inventory.yml", tmp_path / "play.yml", "--limit", "localhost"]

    @pytest.mark.long
    def test_what_would_change_is_shown(self, arguments: list[str | Path], tmp_path: Path) -> None:
        tried = playbook(*arguments, *SKIP, "--check", "--diff", cwd=tmp_path)
        assert changed(tried) == 2
        assert "+    <name>yarn.nodemanager.bind-host</name>" in tried.stdout and "+sidecar:" in tried.stdout
        assert (tmp_path / "conf" / "yarn-site.xml").read_text() == YARN_SITE
        assert not (tmp_path / "etc" / "quicksilver.yaml").exists()

    @pytest.mark.long
    def test_a_node_there_again_and_back(self, arguments: list[str | Path], tmp_path: Path) -> None:
        site, etc = tmp_path / "conf" / "yarn-site.xml", tmp_path / "etc"
        assert changed(playbook(*arguments, cwd=tmp_path)) > 0
        assert "yarn.nodemanager.bind-host" in site.read_text() and (etc / "ansible" / "restart-nodemanager").is_file()
        assert stat.S_IMODE((etc / "tls" / "localhost.key").stat().st_mode) == 0o600
        tokens = (etc / "tokens").read_text().split()
        assert tokens[::2] == ["admin", "read"] and all(token.startswith("sha256:") for token in tokens[1::2])
        settings = YAML(typ="safe").load((etc / "quicksilver.yaml").read_text())
        assert settings["sidecar"] == {"proxy_urls": ["https://rm.example:8390"]} and "proxy" not in settings
        assert changed(playbook(*arguments, cwd=tmp_path)) == 0
        removed = module_call(tmp_path, state="absent")
        assert removed.returncode == 0, removed.stdout
        assert site.read_text() == YARN_SITE

    @pytest.mark.long
    def test_wrong_settings_change_nothing(self, arguments: list[str | Path], tmp_path: Path) -> None:
        settings = tmp_path / "etc" / "quicksilver.yaml"
        settings.write_text("policies: {}\n")
        refused = playbook(*arguments, *SKIP, "-e", '{"quicksilver_policies": {"preset": "defalt"}}', cwd=tmp_path)
        assert refused.returncode != 0 and "must be default, mixed" in refused.stdout, refused.stdout
        assert settings.read_text() == "policies: {}\n"

    @pytest.mark.long
    def test_site_files_wait_for_the_doctor(self, arguments: list[str | Path], tmp_path: Path) -> None:
        site, marker = tmp_path / "conf" / "yarn-site.xml", tmp_path / "etc" / "ansible" / "restart-nodemanager"
        private = "<property><name>hadoop.rpc.protection</name><value>privacy</value></property>"
        (tmp_path / "conf" / "core-site.xml").write_text(f"<configuration>{private}</configuration>")
        refused = module_call(tmp_path, markers=str(marker))
        assert refused.returncode != 0 and "nothing was changed: the doctor finds" in refused.stdout
        assert "rpc-protection" in refused.stdout and site.read_text() == YARN_SITE and not marker.exists()
        accepted = module_call(tmp_path, markers=str(marker), accept="rpc-protection")
        assert accepted.returncode == 0 and site.read_text() != YARN_SITE and marker.is_file(), accepted.stdout


def module_call(folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Have the module quicksilver_site_files change the folder's site files."""
    program = Path(sys.executable).with_name("ansible")
    words = {
        "program": folder / "quicksilver",
        "conf_dir": folder / "conf",
        "roles": "nodemanager",
        "host": "localhost",
        **more,
    }
    argument = " ".join(f"{name}={value}" for name, value in words.items())
    command = [program, "localhost", "-i", folder / "inventory.yml", "-m", "quicksilver_site_files", "-a", argument]
    env = os.environ | {"ANSIBLE_LIBRARY": str(ROLE / "library"), "ANSIBLE_LOCAL_TEMP": str(folder / ".ansible")}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)


NODE: Final = {
    "id": "n1:8041",
    "host": "n1",
    "state": "RUNNING",
    "usable": True,
    "why_unusable": "",
    "used_q": {"memory_mb": 0},
}


@pytest.mark.parametrize(
    ("node", "until", "expected"),
    [
        ({}, "usable", ""),
        ({"state": "LOST"}, "running", "its state is LOST"),
        (
            {"usable": False, "why_unusable": "its sidecar has never reported"},
            "usable",
            "its sidecar has never reported",
        ),
        ({"usable": False, "why_unusable": "its sidecar has never reported"}, "running", ""),
        ({"used_q": {"memory_mb": 512}}, "idle", "queueable containers use 512 MB"),
    ],
)
def test_what_a_node_waits_for(node: dict[str, Any], until: str, expected: str) -> None:
    why_not = module("quicksilver_nodes").why_not
    assert why_not([NODE | node], until, "") == expected
    assert why_not([NODE | node, NODE], until, "") == "", "one of two proxies is active, and says so"
    assert why_not([], until, "refused") == "refused"


def test_what_is_found_on_nodes_without_quicksilver_alone_does_not_count() -> None:
    elsewhere = module("quicksilver_doctor").elsewhere
    on = {"code": "nm-bind-host", "places": [{"host": "n2"}, {"host": "n3:8041"}]}
    assert elsewhere(on, ["n2", "n3"])
    assert not elsewhere(on, ["n2"])
    assert not elsewhere({"code": "proxy-down", "places": []}, ["n2"])


def test_the_role_has_the_units_of_hadoop_conf() -> None:
    assert sorted(path.name for path in (ROLE / "files" / "systemd").iterdir()) == sorted(
        path.name for path in (ROOT / "hadoop-conf" / "systemd").iterdir()
    )
    assert shutil.which("ansible-playbook", path=str(Path(sys.executable).parent)) is not None
