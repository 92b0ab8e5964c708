"""What is made for Cloudera Manager, and its safety valves, before a manager that has the REST as documented."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from deploy.cloudera.build import main
from deploy.cloudera.safety_valves import main as valves
from deploy.packages import layout
from quicksilver.cli import cli
from tests.deploy.fake_host import write_program
from tests.paths import ROOT

VERSION: Final = "0.1.0"
ARCHIVE: Final = f"yarn-quicksilver-{VERSION}-linux-x86_64.tar.gz"
OWN: Final = "<property><name>yarn.nm.admin</name><value>1</value></property>"
BIND: Final = "yarn.nodemanager.bind-host"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with parcels of two distributions, their manifest and the CSD."""
    folder = tmp_path_factory.mktemp("cloudera")
    prefix = folder / f"yarn-quicksilver-{VERSION}"
    layout.common(prefix, ROOT)
    layout.normalize(prefix, layout.PROGRAMS, 1_700_000_000)
    with tarfile.open(folder / ARCHIVE, "w:gz") as archive:
        archive.add(prefix, prefix.name)
    words = [str(folder / ARCHIVE), "--distro", "el8", "--distro", "el9", "--out", str(folder / "repository")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return folder / "repository"


def test_a_parcel_has_the_documented_layout(built: Path) -> None:
    name = f"QUICKSILVER-{VERSION}-el8.parcel"
    with tarfile.open(built / name) as archive:
        names = set(archive.getnames())
        assert {entry.split("/")[0] for entry in names} == {
            f"QUICKSILVER-{VERSION}"
        }  # NAME-VERSION, without the distribution
        program = archive.getmember(f"QUICKSILVER-{VERSION}/bin/quicksilver")
        meta = json.load(archive.extractfile(f"QUICKSILVER-{VERSION}/meta/parcel.json") or archive)  # type: ignore[arg-type]
    assert program.mode & 0o111
    assert (meta["schema_version"], meta["name"], meta["version"]) == (1, "QUICKSILVER", VERSION)
    assert f"QUICKSILVER-{VERSION}/meta/{meta['scripts']['defines']}" in names
    wanted = {"setActiveSymlink", "provides", "packages", "components", "users", "groups"}
    assert wanted <= meta.keys() and meta["extraVersionInfo"]["fullVersion"] == f"{VERSION}-el8"
    assert all(set(user["extra_groups"]) <= set(meta["groups"]) for user in meta["users"].values())
    hashed = hashlib.sha1((built / name).read_bytes(), usedforsecurity=False).hexdigest()
    assert (built / f"{name}.sha").read_text() == hashed
    manifest = json.loads((built / "manifest.json").read_text())
    assert [entry["parcelName"] for entry in manifest["parcels"]] == [name, name.replace("el8", "el9")]
    assert manifest["parcels"][0]["hash"] == hashed and manifest["lastUpdated"] == 1_700_000_000_000


def test_the_csd_names_only_what_it_has(built: Path) -> None:
    with zipfile.ZipFile(built / f"QUICKSILVER-{VERSION}.jar") as jar:
        service = json.loads(jar.read("descriptor/service.sdl"))
        assert jar.getinfo("scripts/control.sh").external_attr >> 16 == 0o755
        script = jar.read("scripts/control.sh").decode()
        files = set(jar.namelist())
    assert service["name"] == "QUICKSILVER" and service["version"] == VERSION
    names = {role["name"] for role in service["roles"]}
    assert names == {"QUICKSILVER_PROXY", "QUICKSILVER_SIDECAR"}
    assert set(service["rolesWithExternalLinks"]) <= names
    assert service["rollingRestart"]["workerSteps"]["roleName"] in names
    shared = {parameter["name"] for parameter in service["parameters"]}
    words = set(re.findall(r"^(\w+)\)$", script, re.MULTILINE))
    for role in service["roles"]:
        known = shared | {parameter["name"] for parameter in role["parameters"]} | {"host"}
        assert set(re.findall(r"\$\{(\w+)\}", json.dumps(role))) <= known
        runners = [role["startRunner"], *(command["commandRunner"] for command in role.get("commands", []))]
        assert {runner["program"] for runner in runners} <= files
        assert {runner["args"][0] for runner in runners} <= words
    assert service["parcel"]["requiredTags"] == ["quicksilver"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x.tar.gz", "--distro", "el8"], "no archive of `make packages`"),
        ([ARCHIVE, "--distro", "EL-8"], "no distribution"),
    ],
)
def test_other_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / words[0]).touch()
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1 and message in done.output


@pytest.mark.parametrize("role", ["proxy", "sidecar"])
def test_the_agent_starts_a_role_with_the_files_of_its_daemon(tmp_path: Path, role: str) -> None:
    processes = tmp_path / "var/run/cloudera-scm-agent/process"
    (processes / "77-QUICKSILVER/yarn-conf").mkdir(parents=True)
    write_program(tmp_path / "parcel/bin/quicksilver", '#!/bin/sh\necho "$HADOOP_CONF_DIR $PWD $*"\n')
    env = {
        "PATH": "/usr/bin:/bin",
        "CONF_DIR": str(processes / "77-QUICKSILVER"),
        "QUICKSILVER_HOME": str(tmp_path / "parcel"),
        "QUICKSILVER_CONFIG": "/etc/quicksilver/quicksilver.yaml",
        "QUICKSILVER_DIR": str(tmp_path),
        "QUICKSILVER_ROOT": str(tmp_path),
    }
    script = ROOT / "deploy/cloudera/csd/scripts/control.sh"
    done = subprocess.run(["sh", script, role], env=env, capture_output=True, text=True, check=True, timeout=30)
    conf = {"proxy": processes / "77-QUICKSILVER/yarn-conf", "sidecar": processes / "*-yarn-NODEMANAGER"}[role]
    assert done.stdout.splitlines()[-1] == f"{conf} {tmp_path} supervise -- {role} run --log-json"


class FakeManager:
    """The configuration of groups of roles, and the requests that changed it."""

    def __init__(self) -> None:
        self.valves: dict[str, dict[str, str | None]] = {
            "yarn-RESOURCEMANAGER-BASE": {},
            "yarn-NODEMANAGER-BASE": {"nodemanager_config_safety_valve": f"{OWN}\n{prop(BIND, '0.0.0.0')}"},
            "yarn-NODEMANAGER-2": {},
        }
        self.puts = 0

    def groups(self) -> list[dict[str, str]]:
        return [{"name": name, "roleType": name.split("-")[1]} for name in self.valves]


def prop(name: str, value: str) -> str:
    return f"<property><name>{name}</name><value>{value}</value></property>"


@pytest.fixture
def manager() -> Iterator[tuple[FakeManager, str]]:
    fake = FakeManager()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            group = re.search(r"roleConfigGroups/([^/]+)/config", self.path)
            if self.path == "/api/version":
                self.answer("v51")
            elif self.headers["Authorization"] != "Basic YWRtaW46c2VjcmV0":
                self.answer({"message": "no such user"}, 401)
            elif group:
                items = fake.valves[group[1]].items()
                self.answer({"items": [{"name": name, "value": value} for name, value in items]})
            else:
                assert self.path == "/api/v51/clusters/Cluster%201/services/yarn/roleConfigGroups"
                self.answer({"items": fake.groups()})

        def do_PUT(self) -> None:
            group = re.search(r"roleConfigGroups/([^/]+)/config\?message=", self.path)
            assert group is not None
            for item in json.loads(self.rfile.read(int(self.headers["Content-Length"])))["items"]:
                fake.puts += 1
                if item["value"] is None:
                    del fake.valves[group[1]][item["name"]]
                else:
                    fake.valves[group[1]][item["name"]] = item["value"]
            self.answer({"items": []})

        def answer(self, body: Any, status: int = 200) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write((body if isinstance(body, str) else json.dumps(body)).encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield fake, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_safety_valves_are_written_once_and_put_back(
    manager: tuple[FakeManager, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, url = manager
    monkeypatch.setenv("CM_PASSWORD", "secret")
    before = json.loads(json.dumps(fake.valves))
    site = {"yarn.nodemanager.address": "node7:8041", "yarn.nodemanager.webapp.address": "node7:8042"}
    site |= {"yarn.resourcemanager.scheduler.address": "rm:8030"}
    conf = tmp_path / "12-yarn-NODEMANAGER"
    conf.mkdir()
    text = "".join(prop(name, value) for name, value in site.items())
    (conf / "yarn-site.xml").write_text(f"<configuration>{text}</configuration>")
    for role in ("resourcemanager", "nodemanager"):
        words = ["install", "--conf-dir", str(tmp_path / "*-yarn-NODEMANAGER"), "--role", role, "--format", "xml"]
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.output
        (tmp_path / f"{role}.xml").write_text(done.stdout)
    base = ["--url", url, "--cluster", "Cluster 1", "--saved", str(tmp_path / "saved.json")]
    words = [*base, *(f"--{role}={tmp_path / role}.xml" for role in ("resourcemanager", "nodemanager"))]
    assert valves(["apply", *words, "--dry-run"]) == 0 and fake.puts == 0
    assert valves(["apply", *words]) == 0 and fake.puts == 3
    valve = fake.valves["yarn-NODEMANAGER-BASE"]["nodemanager_config_safety_valve"] or ""
    assert valve.startswith(OWN) and prop(BIND, "0.0.0.0") not in valve and "node7" not in valve
    assert valve.count(f"<name>{BIND}</name>") == 1
    later = tmp_path / "13-yarn-NODEMANAGER"  # what the agent makes of it at the next start
    later.mkdir()
    (later / "yarn-site.xml").write_text(f"<configuration>{text}{valve}</configuration>")
    dirs = ["--conf-dir", str(conf), "--nm-conf-dir", str(tmp_path / "*-yarn-NODEMANAGER")]
    found = json.loads(CliRunner().invoke(cli, ["doctor", "--offline", "--json", *dirs]).stdout)["findings"]
    assert [each["code"] for each in found if each["severity"] != "note" and each["code"].startswith("nm-")] == []
    moved = fake.valves["yarn-RESOURCEMANAGER-BASE"]["resourcemanager_config_safety_valve"] or ""
    assert "<value>rm:${quicksilver.resourcemanager.scheduler.port}</value>" in moved
    assert valves(["apply", *words]) == 0 and fake.puts == 3
    assert valves(["restore", *base]) == 0 and fake.valves == before
    assert valves(["restore", *base]) == 0 and fake.puts == 6


def test_a_manager_that_refuses_is_quoted(
    manager: tuple[FakeManager, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CM_PASSWORD", "wrong")
    base = ["--cluster", "Cluster 1", "--saved", str(tmp_path / "saved.json")]
    (tmp_path / "nm.xml").write_text(prop(BIND, "127.0.0.1"))
    assert valves(["apply", "--url", manager[1], *base, "--nodemanager", str(tmp_path / "nm.xml")]) == 1
    assert "401" in capsys.readouterr().err
    assert valves(["restore", "--url", manager[1], *base]) == 1
    assert "--saved names the file" in capsys.readouterr().err
    assert valves(["apply", "--url", manager[1], *base]) == 1
    assert "nothing to write" in capsys.readouterr().err
