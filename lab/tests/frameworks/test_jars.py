"""Which jars of a framework stay beside Hadoop's."""

from pathlib import Path

import pytest

from quicksilver_lab.cluster.runtime.jars import Jars
from quicksilver_lab.cluster.runtime.java import Java
from quicksilver_lab.frameworks import jars
from quicksilver_lab.frameworks.jars import artifact, framework


@pytest.mark.parametrize(
    ("jar", "name"),
    [
        ("tez-dag-0.10.4.jar", "tez-dag"),
        ("hive-shims-0.23-4.0.1.jar", "hive-shims"),
        ("commons-collections4-4.4.jar", "commons-collections4"),
        ("own.jar", "own"),
    ],
)
def test_an_artifact_is_a_jar_without_its_version(jar: str, name: str) -> None:
    assert artifact(jar) == name


def test_what_hadoop_has_is_left_out_and_downloads_happen_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hadoop = Jars(tmp_path / "hadoop")
    hadoop.lib.mkdir()
    for name in ("guava-27.0-jre.jar", "jline-3.9.0.jar"):
        (hadoop.lib / name).touch()
    downloads = []

    def download(pom: Path, version: str, java: Java, target: Path) -> None:
        downloads.append((pom.name, version))
        target.mkdir(parents=True)
        for name in ("guava-22.0.jar", "jline-2.14.6.jar", "hive-exec-4.0.1.jar", "curator-5.2.0.pom"):
            (target / name).touch()

    monkeypatch.setenv("QUICKSILVER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "_download", download)
    java = Java(tmp_path, 17)
    hive = framework("hive", java, hadoop)
    assert framework("hive", java, hadoop) == hive
    assert downloads == [("hive.xml", hive.version)]
    assert sorted(jar.name for jar in hive.lib.glob("*.jar")) == ["hive-exec-4.0.1.jar", "jline-2.14.6.jar"]
    assert hive.classpath(hadoop) == f"{hadoop.lib}/*:{hive.lib}/*"
    (hadoop.lib / "hive-exec-3.jar").touch()
    framework("hive", java, hadoop)
    assert len(downloads) == 2
    other = framework("hive", java, hadoop, version="3.1.3")
    assert downloads[2:] == [("hive.xml", "3.1.3")] and other.lib.parent.name == f"hive-3.1.3-on-{hadoop.version}"
