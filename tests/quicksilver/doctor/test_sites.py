"""Site files as managers and admins write them: after `install` and `init` the doctor finds what is truly wrong."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from quicksilver.cli import cli
from quicksilver.common.hadoop.conf import load_hadoop_conf
from quicksilver.doctor.node_size import VCORES
from quicksilver.doctor.site_edit import EMPTY, apply
from tests.paths import ROOT
from tests.quicksilver.doctor.words import cure, serious

SITES = ROOT / "tests" / "data" / "sites"
RM_IDS = {"fi": "40", "hafs": "rm1", "big": "rm1"}
"""The ResourceManager of the one host that the settings are for, where there are several."""
NAMED = {"hdp": "", "cm": "", "hafs": "", "fi": "node1.example", "aliyun": "node1.example", "big": "node7.example"}
"""The node's own name in its files."""
_CALCULATOR = "yarn.scheduler.capacity.resource-calculator"
_CLASS = "yarn.resourcemanager.scheduler.class"
_SCHEDULER = "org.apache.hadoop.yarn.server.resourcemanager.scheduler"


def call(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(cli, list(map(str, words)), prog_name="quicksilver")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@dataclass(frozen=True, slots=True)
class Hosts:
    """One directory of site files for clients, and copies for a ResourceManager and a node."""

    folder: Path
    name: str

    @property
    def clients(self) -> Path:
        return self.folder / "clients"

    def install(self, *more: str) -> None:
        """Do what README says: install on both, then `init`; the files that it names are made."""
        host = [] if NAMED.get(self.name, "node1.example") else ["--host", "node1.example"]
        for role, words in (("resourcemanager", []), ("nodemanager", host)):
            where = ("--conf-dir", self.clients, "--out", self.folder / role)
            code, text = call("install", "--role", role, *words, *where, *more)
            assert code == 0, text
        rm_id = ["--rm-id", RM_IDS[self.name]] if self.name in RM_IDS else []
        roles = ("--role", "resourcemanager", "--role", "nodemanager", *rm_id)
        code, text = call("init", *roles, "--conf-dir", self.folder / "nodemanager", "--yes", "--out", self.yaml)
        assert code == 0, text
        etc = self.folder / "etc"
        for file in re.findall(r"/etc/quicksilver/([\w./-]+)", self.yaml.read_text()):
            (etc / file).parent.mkdir(parents=True, exist_ok=True)
            (etc / file).touch(0o600)
        self.yaml.write_text(self.yaml.read_text().replace("/etc/quicksilver", str(etc)))

    @property
    def yaml(self) -> Path:
        return self.folder / "quicksilver.yaml"

    def doctor(self, *more: str, installed: bool = True) -> str:
        rm, nm = (self.folder / role if installed else self.clients for role in ("resourcemanager", "nodemanager"))
        where = ("--conf-dir", self.clients, "--rm-conf-dir", rm, "--nm-conf-dir", nm, "--config", self.yaml)
        return call("doctor", "--offline", *where, *more)[1]

    def look(self, *, installed: bool = True) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.doctor("--json", installed=installed))
        return found


def hosts(folder: Path, name: str, settings: str = "policies: {}\n") -> Hosts:
    found = Hosts(folder, name)
    shutil.copytree(SITES / name, found.clients)
    found.yaml.write_text(settings)
    return found


def fresh(folder: Path, name: str) -> Hosts:
    found = hosts(folder, name)
    found.yaml.unlink()
    found.install()
    return found


def change(folder: Path, put: dict[str, str], file: str = "yarn-site.xml") -> None:
    path = folder / file
    path.write_bytes(apply(path.read_bytes() if path.exists() else EMPTY, put, (), path))


WRONG = {
    "aliyun": set(),
    "cm": set(),
    "hafs": set(),
    "hdp": {"nm-port-high"},
    "fi": {"rpc-protection"},
    "big": {"federation"},
    "krb": {"kerberos-acl", "kerberos-nm-web"},
}
"""What is truly wrong with each after installation. What clients might set is left out."""


@pytest.mark.parametrize("name", sorted(WRONG))
def test_not_clean_is_only_what_is_truly_wrong(name: str, tmp_path: Path) -> None:
    found = fresh(tmp_path, name).look()
    left = {one["code"] for one in serious(found) if {place["role"] for place in one["places"]} != {"client"}}
    assert left == WRONG[name]
    assert [one["found"] for one in found["findings"] if one["code"] in ("front-places", "nm-size-unknown")] == []


def test_there_is_a_test_for_each_site() -> None:
    assert {path.name for path in SITES.iterdir()} == WRONG.keys()


@pytest.mark.parametrize("name", sorted(WRONG))
def test_before_installation_one_line_says_what_it_sets(name: str, tmp_path: Path) -> None:
    at = hosts(tmp_path, name)
    found, text = at.look(installed=False), at.doctor(installed=False)
    errors = [one for one in found["findings"] if one["severity"] == "error"]
    mended = [one for one in errors if one["set_by_install"]]
    host = "" if NAMED.get(name, "node1.example") else " --host NAME"
    command = f"`quicksilver install --role resourcemanager --role nodemanager{host}`"
    assert text.startswith(f"{len(mended)} of {len(errors)} errors, ") and command in text.splitlines()[0]
    assert len(mended) >= 7 and len(mended) >= len(errors) - 3
    assert re.findall(r"^error ([a-z-]+):", text, re.M) == [one["code"] for one in errors if not one["set_by_install"]]
    moved = [one["remedy"] for one in errors if one["code"] == "scheduler-not-moved"]
    assert moved and all(one["put"] == {} and "yarn-env.sh" in one["text"] for one in moved)  # clients read the file
    long = at.doctor("--verbose", installed=False)
    assert len(re.findall(r"^error ", long, re.M)) == len(errors)
    assert {path.name for path in at.clients.iterdir()} == {path.name for path in (SITES / name).iterdir()}


@pytest.mark.parametrize("installed", [False, True], ids=["plain", "installed"])
@pytest.mark.parametrize("policies", ["{}", "{preset: kairos}"])
@pytest.mark.parametrize("name", sorted(WRONG))
def test_no_property_has_two_remedies(name: str, policies: str, installed: bool, tmp_path: Path) -> None:
    at = hosts(tmp_path, name)
    if installed:
        at.yaml.unlink()
        at.install()
    at.yaml.write_text(f"policies: {policies}\nsidecar: {{vcores: 4}}\n")
    values: dict[tuple[str, str, str], set[str]] = {}
    for one in at.look(installed=installed)["findings"]:
        for place in one["places"]:
            for prop, value in one["remedy"]["put"].items():
                values.setdefault((place["role"], str(place["directory"]), prop), set()).add(value)
    assert {key: value for key, value in values.items() if len(value) > 1} == {}


def test_all_reasons_are_one_finding_whose_value_serves_them_all(tmp_path: Path) -> None:
    at = hosts(tmp_path, "hdp", "policies: {preset: kairos}\nsidecar: {vcores: 48}\n")
    size = {VCORES: "48", "yarn.nodemanager.resource.memory-mb": "196608"}
    change(at.clients, size)
    (one,) = [each for each in at.look(installed=False)["findings"] if each["property"] == VCORES]
    assert (one["code"], one["remedy"]["put"]) == ("nm-vcores", {VCORES: "192"})
    assert "196608 MB hold 192 containers" in one["found"] and "containers may take 52" in one["found"]
    cure({"findings": [one]})
    assert [each for each in at.look(installed=False)["findings"] if each["property"] == VCORES] == []


@pytest.mark.parametrize(
    ("chosen", "codes"),
    [
        (f"{_SCHEDULER}.capacity.CapacityScheduler", {"nm-vcores", "resource-calculator"}),
        (f"{_SCHEDULER}.fair.FairScheduler", {"nm-capacity"}),
        (f"{_SCHEDULER}.fifo.FifoScheduler", {"nm-vcores", "resource-calculator"}),
        ("org.example.OurScheduler", {"nm-capacity", "scheduler-unknown"}),
    ],
)
def test_a_scheduler_is_judged_by_its_own_properties(chosen: str, codes: set[str], tmp_path: Path) -> None:
    at = hosts(tmp_path, "hdp", "policies: {preset: kairos}\nsidecar: {vcores: 3}\n")
    change(at.clients, {_CLASS: chosen, "yarn.resourcemanager.scheduler.monitor.enable": "true"})
    change(at.clients, {"yarn.scheduler.fair.preemption": "true", "yarn.nodemanager.resource.memory-mb": "65536"})
    findings = at.look(installed=False)["findings"]
    asked = {"nm-vcores", "nm-capacity", "resource-calculator", "scheduler-unknown"}
    assert {one["code"] for one in findings} & asked == codes
    preemption = {one["property"].split(".")[2] for one in findings if one["code"] == "rm-preemption"}
    assert preemption == {"CapacityScheduler": {"capacity"}, "FairScheduler": {"fair"}}.get(
        chosen.rpartition(".")[2], set()
    )
    assert all(_CALCULATOR not in one["remedy"]["put"] for one in findings) == ("Capacity" not in chosen)
    assert (
        call("install", "--conf-dir", at.clients, "--role", "resourcemanager", "--with", "sharing", "--in-place")[0]
        == 0
    )
    conf = (at.clients / "capacity-scheduler.xml").read_text()
    assert ("DominantResourceCalculator" in conf) == ("Capacity" in chosen)


@pytest.mark.parametrize(
    ("settings", "own", "written"),
    [
        ("policies: {}\n", "48", "49"),
        ("policies: {preset: kairos}\n", "48", "52"),
        ("policies: {preset: mercury}\n", "48", None),
        ("policies: {}\nsidecar: {vcores: 40}\n", "48", None),
        ("policies: {}\nsidecar: {vcores: 40}\n", "40", "41"),
        ("policies: {preset: kairos}\ntracker: {rm_vcores: 10}\n", "10", "24"),
        ("policies: {}\n", "", "9"),
        ("policies: {}\n", "-1", None),
    ],
    ids=["default", "kairos", "kills", "enough", "named", "relay", "not set", "detected"],
)
@pytest.mark.parametrize("more", [(), ("--with", "sharing")], ids=["plain", "sharing"])
def test_a_node_gets_its_own_vcores_and_those_beyond(
    settings: str, own: str, written: str | None, more: tuple[str, ...], tmp_path: Path
) -> None:
    at = hosts(tmp_path, "big", settings)
    detect = {"yarn.nodemanager.resource.detect-hardware-capabilities": "true"} if own == "-1" else {}
    change(at.clients, {VCORES: own, **detect})
    words: list[str | Path] = ["install", "--conf-dir", at.clients, "--role", "nodemanager", "--config", at.yaml, *more]
    code, text = call(*words, "--in-place")
    assert code == 0
    assert load_hadoop_conf(at.clients).properties[VCORES].value == (own if written is None else written)
    if written and "sidecar" not in settings:
        assert f"sidecar: {{vcores: {own or 8}}}" in text
    assert "nothing to change" in call(*words, "--dry-run")[1]  # N is the admin's own value, also when it is overridden


def test_a_node_whose_directory_is_the_resourcemanagers_gets_what_memory_needs(tmp_path: Path) -> None:
    at = hosts(tmp_path, "hdp")
    change(at.clients, {"yarn.nodemanager.resource.memory-mb": "16384"})
    words = ("--conf-dir", at.clients, "--role", "nodemanager", "--host", "n", "--config", at.yaml, "--in-place")
    assert call("install", *words)[0] == 0
    assert load_hadoop_conf(at.clients).text(VCORES) == "4"  # a node's capacity-scheduler.xml may be Hadoop's own
    assert call("install", "--role", "resourcemanager", *words)[0] == 0
    assert load_hadoop_conf(at.clients).text(VCORES) == "16"
    assert call("install", "--role", "resourcemanager", "--with", "sharing", *words)[0] == 0
    assert load_hadoop_conf(at.clients).text(VCORES) == "4"


@pytest.mark.parametrize("name", sorted(NAMED))
def test_init_on_a_node_takes_what_its_files_say(name: str, tmp_path: Path) -> None:
    at = hosts(tmp_path, name)
    at.yaml.unlink()
    code, text = call("init", "--conf-dir", at.clients, "--role", "nodemanager", "--yes", "--out", at.yaml)
    assert code == 0, text  # no --rm-id
    if NAMED[name]:
        own = load_hadoop_conf(at.clients).text(VCORES)
        assert f"  vcores: {own}   #" in at.yaml.read_text()
        assert f"certs node {NAMED[name]}\n" in text and f"install --role nodemanager --host {NAMED[name]} " in text
    assert "vcores" in at.yaml.read_text() and "rm_id" not in at.yaml.read_text()


def test_init_reads_a_node_below_what_install_added(tmp_path: Path) -> None:
    at = fresh(tmp_path, "big")
    assert load_hadoop_conf(at.folder / "nodemanager").text(VCORES) == "49"
    assert "  vcores: 48   #" in at.yaml.read_text()


def test_without_sidecar_vcores_the_doctor_names_the_value_below_the_block(tmp_path: Path) -> None:
    at = fresh(tmp_path, "aliyun")
    at.yaml.write_text("policies: {}\n")
    (one,) = [each for each in at.look()["findings"] if each["code"] == "front-places"]
    assert one["remedy"]["text"] == "set sidecar.vcores: 8 in quicksilver.yaml" and one["remedy"]["put"] == {}


def test_a_cluster_with_kerberos_has_logins_and_a_right_to_see(tmp_path: Path) -> None:
    at = fresh(tmp_path, "krb")
    text = at.yaml.read_text()
    assert text.count("  kerberos_principal: quicksilver/_HOST@EXAMPLE.COM ") == text.count("  kerberos_keytab: ") == 2
    sick = at.look()
    kerberos = [one for one in sick["findings"] if one["code"].startswith("kerberos")]
    assert {one["code"]: one["remedy"]["put"] for one in kerberos} == {
        "kerberos-acl": {"yarn.admin.acl": "yarn,admin,quicksilver"},
        "kerberos-nm-web": {"hadoop.http.authentication.kerberos.principal": "*"},
    }
    cure({"findings": kerberos})
    assert not [one for one in at.look()["findings"] if one["code"].startswith("kerberos")]
    at.yaml.write_text("policies: {}\nproxy: {upstream: 'rm.example:18030'}\n")
    found = [one["found"] for one in at.look()["findings"] if one["code"] == "kerberos-login"]
    assert [re.findall(r"(\w+)\.kerberos", one) for one in found] == [["proxy"] * 2, ["sidecar"] * 2]
    file = at.folder / "resourcemanager" / "yarn-site.xml"
    file.write_text(file.read_text().replace("yarn,admin,quicksilver", " admins"))
    (acl,) = [one for one in at.look()["findings"] if one["code"] == "kerberos-acl"]
    assert (acl["severity"], acl["remedy"]["put"]) == ("note", {"yarn.admin.acl": "quicksilver admins"})


def test_uninstalling_names_the_copies_that_may_go(tmp_path: Path) -> None:
    at = hosts(tmp_path, "aliyun")
    words = ("--conf-dir", at.clients, "--in-place")
    assert call("install", "--role", "nodemanager", *words)[0] == 0
    text = call("uninstall", *words)[1]
    copies = [str(file) for file in sorted(at.clients.glob("*.before-quicksilver-*"))]
    assert copies and text.endswith(f"which may be removed: {' '.join(copies)}\n")
