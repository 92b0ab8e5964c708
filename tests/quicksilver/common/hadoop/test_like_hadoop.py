"""Site files are read as Hadoop reads them: its own answers for small directories are data, and can be made anew.

tests/data/hadoop/site_files has the directories, site_files.json what SiteFiles.java, a program over Hadoop's classes,
printed for them. `test_hadoop_still_says_so` runs it again, for several versions of Hadoop.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import HadoopConf, load_hadoop_conf
from quicksilver.common.hadoop.defaults import DEFAULTS, NEW_NAMES
from quicksilver.doctor.site_edit import apply, layout
from quicksilver_apps.client.site import ClusterSite
from quicksilver_lab.cluster.runtime.java import Java, find_java, find_maven
from quicksilver_lab.cluster.runtime.releases import DEFAULT
from tests.paths import DATA, ROOT

FOLDERS: Final = sorted((DATA / "hadoop" / "site_files").iterdir())
ANSWERS: Final[dict[str, Any]] = json.loads((DATA / "hadoop" / "site_files.json").read_text())
VERSIONS: Final = ("3.1.1", "3.2.4", "3.3.6", "3.4.1", "3.4.2", "3.5.0")
_UNTIL_3_3: Final[dict[str, str | None]] = {
    "yarn.am.liveness-monitor.expiry-interval-ms": "600000",
    "yarn.nodemanager.opportunistic-containers-queue-policy": None,
}
_UNTIL_3_2: Final[dict[str, str | None]] = _UNTIL_3_3 | {
    "ipc.maximum.data.length": "67108864",
    "yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat": None,
}
OTHER_DEFAULTS: Final[dict[str, dict[str, str | None]]] = {
    "3.1.1": _UNTIL_3_2
    | {"hadoop.security.token.service.use_ip": None, "yarn.nodemanager.elastic-memory-control.enabled": None},
    "3.2.4": _UNTIL_3_2,
    "3.3.6": _UNTIL_3_3,
    "3.5.0": {"yarn.nodemanager.linux-container-executor.cgroups.v2.enabled": "false"},
}
READ_OTHERWISE: Final = {("3.1.1", "elements")}
"""Folders that a version reads in another way: 3.1 leaves out CDATA sections."""
HOME: Final = "/home/someone"
ENVIRONMENT: Final = {"HOST": "node7", "EMPTY": "", "HADOOP_USER_NAME": "someone", "HADOOP_LOG_DIR": "/opt/logs"}
NEVER_READ: Final = {
    new for old, names in ANSWERS["deprecated"].items() if old not in NEW_NAMES for new in names
} - NEW_NAMES.keys()
"""Names that Hadoop shows in place of old ones that we do not know, since nothing of ours reads them."""
OWN_DEFAULTS: Final = {"yarn.nodemanager.resource.memory-mb", "yarn.nodemanager.resource.cpu-vcores"}
"""-1 in yarn-default.xml, which NodeManagers take for these numbers."""


@pytest.fixture(autouse=True)
def _system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", HOME)
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")


def read(folder: Path, view: str) -> HadoopConf:
    if view == "client":
        return load_hadoop_conf(folder, ENVIRONMENT, hdfs=True)
    conf = load_hadoop_conf(folder, ENVIRONMENT, resourcemanager=True)
    return conf.with_file(folder / "capacity-scheduler.xml")


def tried(call: Callable[[], object]) -> object:
    """Return a value; "error" where there is none."""
    try:
        return call()
    except SettingsError:
        return "error"


def values(conf: HadoopConf, name: str) -> dict[str, object]:
    """Return all that can be read of one property, under the names that SiteFiles.java gives it."""

    def boolean() -> object:
        found = {conf.boolean(name, True), conf.boolean(name, False)}
        return "default" if len(found) > 1 else found.pop()

    return {
        "raw": conf.raw(name),
        "text": tried(lambda: conf.untrimmed(name)),
        "integer": tried(lambda: conf.integer(name)),
        "boolean": tried(boolean),
        "ms": tried(lambda: round(conf.duration_s(name) * 1000)),
        "names": tried(lambda: conf.names(name)),
    }


def reads(conf: HadoopConf) -> dict[str, object]:
    """Return the properties of which Hadoop's classes have reads of their own."""
    site = ClusterSite(conf)
    return {
        "default_fs": site.default_fs,
        "secure": "KERBEROS" if site.secure else conf.word("hadoop.security.authentication"),
        "yarn_https": conf.web_scheme == "https",
        "dfs_policy": conf.word("dfs.http.policy"),
        "ha": conf.boolean("yarn.resourcemanager.ha.enabled"),
    }


def differences(folder: Path, view: str) -> tuple[int, list[str]]:
    """Return how many values were compared, and those that differ."""
    theirs, at = ANSWERS["folders"][folder.name][view], f"{folder.name} ({view})"
    try:
        conf = read(folder, view)
    except SettingsError as error:
        return 1, [] if "error" in theirs else [f"{at}: {error}"]
    if "error" in theirs:
        return 1, [f"{at}: Hadoop refuses it: {theirs['error']}"]
    pairs: list[tuple[str, object, object]] = [("finals", sorted(conf.finals), theirs["finals"])]
    known = {name: said for name, said in theirs["properties"].items() if name not in NEVER_READ}
    ours = conf.properties.keys() - NEVER_READ - ANSWERS["deprecated"].keys()
    pairs.append(("names", sorted(ours), sorted(known)))
    for name, said in known.items():
        mine = values(conf, name)
        pairs += [(f"{name} {kind}", mine[kind], _plain(value)) for kind, value in said.items()]
    mine = reads(conf)
    for kind, value in theirs["reads"].items():
        if _plain(value) != "error":  # no daemon starts with it
            pairs.append((kind, mine[kind], value.rstrip("/") if kind == "default_fs" else value))
    return len(pairs), [f"{at} {what}: {one!r}, Hadoop {other!r}" for what, one, other in pairs if one != other]


def _plain(value: object) -> object:
    return "error" if isinstance(value, dict) else value


@pytest.mark.parametrize("view", ["client", "resourcemanager"])
def test_each_value_is_the_one_that_hadoop_reads(view: str) -> None:
    found = [differences(folder, view) for folder in FOLDERS]
    assert [line for _, lines in found for line in lines] == []
    assert {folder.name for folder in FOLDERS} == ANSWERS["folders"].keys() and len(FOLDERS) > 70
    assert sum(count for count, _ in found) > 1500


def test_the_defaults_are_hadoops() -> None:
    ours = {name: value for name, value in DEFAULTS.items() if name not in OWN_DEFAULTS}
    theirs = {name: value for name, value in ANSWERS["defaults"].items() if name not in OWN_DEFAULTS}
    assert theirs == ours, "what is read and has a default is in DEFAULTS, whose numbers are Hadoop's"


def test_each_old_name_is_known_whose_new_name_is_read() -> None:
    patterns = [re.compile(pattern) for pattern in {*names_read(), *map(re.escape, DEFAULTS)}]
    wanted = {
        old: new[0]
        for old, new in ANSWERS["deprecated"].items()
        if any(pattern.fullmatch(name) for pattern in patterns for name in new)
    }
    assert wanted == NEW_NAMES
    assert all(len(ANSWERS["deprecated"][old]) == 1 for old in NEW_NAMES), "laid_over knows one new name for each"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_editor_agrees_with_the_reader(folder: Path) -> None:
    """Where a file can be edited, a property that is put counts, and all others stay with their bytes."""
    file = folder / "yarn-site.xml"
    if not file.is_file():
        return
    text = file.read_bytes()
    try:
        before = layout(text, file)
        after = apply(text, {"quicksilver.put": "1"}, (), file)
    except SettingsError as error:
        assert error.remedy
        return
    at = after.index(b"<property>\n", before.end - 4) if b"\r" not in text else before.end
    assert text.startswith(after[: at - 4]) and after.endswith(text[before.end :])
    conf = load_hadoop_conf(folder, ENVIRONMENT)
    for name, value in before.values().items():
        if name not in conf.finals and conf.properties[name].file == file and conf.properties[name].start >= 0:
            assert conf.properties[name].value.strip() == value
    assert layout(after, file).values() == before.values() | {"quicksilver.put": "1"}


def names_read() -> Iterator[str]:
    """Yield regular expressions of the properties that the product reads: its strings that look like such names."""
    left_out = ("bench", "cluster", "simulator", "demo", "workloads")
    for file in (one for top in ("quicksilver", "rm_proxy", "sidecar") for one in (ROOT / top).rglob("*.py")):
        if file.name == "defaults.py" or set(left_out) & set(file.parts):
            continue
        tree = ast.parse(file.read_text())
        constants: dict[str, str] = {}
        for node in tree.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                for text in _pattern(node.value, constants):
                    constants[node.target.id] = text
        for each in ast.walk(tree):
            yield from (text for text in _pattern(each, constants) if _NAME.match(text))


_NAME: Final = re.compile(r"(yarn|mapreduce|fs|hadoop|dfs|ipc|ingress)\\\.[\w\\.-]+[\w+]$")


def _pattern(node: ast.AST, constants: dict[str, str]) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield re.escape(node.value).replace(r"\-", "-")
    elif isinstance(node, ast.JoinedStr):
        parts = [getattr(part, "value", part) for part in node.values]
        yield "".join(
            re.escape(part).replace(r"\-", "-")
            if isinstance(part, str)
            else constants.get(getattr(part, "id", ""), r"[\w-]+")
            for part in parts
        )


def hadoop_answers(java: Java, version: str, work: Path) -> dict[str, Any]:
    """Compile and run SiteFiles.java with a version of Hadoop from Maven Central; return what it prints."""
    classpath, classes = _classpath(java, version, work), work / "classes"
    source = Path(__file__).with_name("SiteFiles.java")
    compiler = ["org.eclipse.jdt.internal.compiler.batch.Main", "-source", "8", "-target", "8", "-nowarn"]
    subprocess.run([str(java.executable), "-cp", classpath, *compiler, "-d", classes, source], check=True, cwd=work)
    system = {"user.name": "someone", "user.home": HOME, "java.io.tmpdir": "/tmp", "yarn.log.dir": "/opt/logs"}
    options = [f"-D{name}={value}" for name, value in system.items()]
    literal = {name.replace("\\", "") for name in names_read() if "[" not in name}
    asked = sorted(literal | DEFAULTS.keys())
    argv = [
        str(java.executable),
        *options,
        "-cp",
        f"{classes}:{classpath}",
        "SiteFiles",
        str(FOLDERS[0].parent),
        *asked,
    ]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=work, env=ENVIRONMENT)
    answers: dict[str, Any] = json.loads(done.stdout)
    for views in answers["folders"].values():
        for view in views.values():
            if "error" in view:
                view["error"] = view["error"].splitlines()[0]
    return answers


def _classpath(java: Java, version: str, work: Path) -> str:
    parts = ["common", "hdfs", "hdfs-client", "mapreduce-client-core", "yarn-common"]
    dependencies = [("org.apache.hadoop", f"hadoop-{part}", version) for part in parts]
    dependencies.append(("org.eclipse.jdt", "ecj", "3.26.0"))
    items = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{number}</version></dependency>"
        for group, name, number in dependencies
    )
    (work / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>q</groupId><artifactId>site-files</artifactId>"
        f"<version>1</version><dependencies>{items}</dependencies></project>"
    )
    argv = [str(find_maven()), "-B", "-q", "dependency:build-classpath", f"-Dmdep.outputFile={work / 'classpath'}"]
    subprocess.run(argv, check=True, cwd=work, env={**os.environ, "JAVA_HOME": str(java.home)})
    return (work / "classpath").read_text().strip()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", VERSIONS)
def test_hadoop_still_says_so(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # Maven has its files at home
    answers = hadoop_answers(find_java(), version, tmp_path)
    defaults = ANSWERS["defaults"] | OTHER_DEFAULTS.get(version, {})
    assert answers["defaults"] == {name: value for name, value in defaults.items() if value is not None}
    assert {old: answers["deprecated"].get(old) for old in NEW_NAMES} == {old: [new] for old, new in NEW_NAMES.items()}
    for name, views in answers["folders"].items():
        for view, said in views.items():
            recorded = ANSWERS["folders"][name][view]
            same = ("error" in said) == ("error" in recorded) and (said == recorded or "error" in said)
            assert same or (version, name) in READ_OTHERWISE, (name, view)


if __name__ == "__main__":  # writes the answers anew: python -m tests.quicksilver.common.hadoop.test_like_hadoop
    with tempfile.TemporaryDirectory() as folder:
        found = hadoop_answers(find_java(), DEFAULT, Path(folder))
    lines = {name: json.dumps(said, ensure_ascii=False, sort_keys=True) for name, said in found.pop("folders").items()}
    folders = ",\n".join(f'"{name}": {line}' for name, line in sorted(lines.items()))
    rest = ",\n".join(f'"{name}": {json.dumps(said, indent=1, sort_keys=True)}' for name, said in sorted(found.items()))
    (DATA / "hadoop" / "site_files.json").write_text(f'{{{rest},\n"folders": {{\n{folders}}}}}\n')
