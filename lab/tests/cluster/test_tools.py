"""Choosing Java and Maven, bringing the jars, and what is said when that fails."""

from pathlib import Path

import pytest

from quicksilver_lab.cluster.errors import DownloadError, MissingToolError
from quicksilver_lab.cluster.runtime.jars import cache_dir, hadoop_jars
from quicksilver_lab.cluster.runtime.java import Java, find_java, find_maven
from quicksilver_lab.cluster.runtime.releases import DEFAULT


def fake_java(home: Path, version: str, *, release: bool = True) -> Path:
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    launcher.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def fake_maven(folder: Path, script: str) -> dict[str, str]:
    folder.mkdir(parents=True)
    maven = folder / "mvn"
    maven.write_text(f"#!/bin/sh\n{script}\n")
    maven.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


@pytest.mark.parametrize(("text", "version"), [("1.8.0_392", 8), ("11.0.2", 11), ("17", 17), ("21.0.1", 21)])
@pytest.mark.parametrize("release", [True, False])
def test_java_8_to_21_is_taken_from_java_home(tmp_path: Path, text: str, version: int, release: bool) -> None:
    home = fake_java(tmp_path / "jdk", text, release=release)
    env = {"JAVA_HOME": str(home), "PATH": str(fake_java(tmp_path / "other", "17.0.1") / "bin")}
    assert find_java(env, tmp_path / "none") == Java(home, version)


def test_a_java_home_too_new_yields_to_path_and_that_to_installed_ones(tmp_path: Path) -> None:
    new = fake_java(tmp_path / "new", "25.0.1")
    on_path = fake_java(tmp_path / "usr", "11.0.2")
    jvms = tmp_path / "jvm"
    fake_java(jvms / "java-8", "1.8.0_1")
    newest = fake_java(jvms / "java-21", "21.0.1")
    fake_java(jvms / "java-22", "22")
    assert find_java({"JAVA_HOME": str(new), "PATH": str(on_path / "bin")}, jvms).home == on_path
    assert find_java({"JAVA_HOME": str(new), "PATH": str(new / "bin")}, jvms).home == newest


def test_no_usable_java_is_one_line_with_what_was_seen_and_a_remedy(tmp_path: Path) -> None:
    new = fake_java(tmp_path / "new", "22.0.1")
    with pytest.raises(MissingToolError) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(new / "bin")}, tmp_path / "none")
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"Hadoop needs Java 8 to 21 (JAVA_HOME {tmp_path}/gone is no Java; PATH {new} is Java 22)")
    assert "apt-get install -y openjdk-17-jre-headless" in text


def test_no_maven_is_one_line_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match=r"Maven \(mvn\) is not on PATH.*apt-get install"):
        find_maven({"PATH": str(tmp_path)})


def test_jars_are_brought_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = f'echo run >> {tmp_path}/runs; for a; do case "$a" in -DoutputDirectory=*) d="${{a#*=}}";; esac; done; '
    env = fake_maven(tmp_path / "bin", counting + f'mkdir -p "$d"; touch "$d/hadoop-common-{DEFAULT}.jar"')
    monkeypatch.setenv("PATH", env["PATH"])
    java = Java(tmp_path, 17)
    first = hadoop_jars(java, cache=tmp_path / "cache")
    second = hadoop_jars(java, cache=tmp_path / "cache")
    assert first == second
    assert first.artifact("hadoop-common").is_file()
    assert (tmp_path / "runs").read_text() == "run\n"
    with pytest.raises(DownloadError, match="hadoop-nothing"):
        first.artifact("hadoop-nothing")


def test_a_failed_download_names_maven_s_reason_and_its_log_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = fake_maven(tmp_path / "bin", "echo '[ERROR] Could not transfer artifact x'; exit 1")
    monkeypatch.setenv("PATH", env["PATH"])
    for _ in range(2):
        with pytest.raises(DownloadError, match=r"Could not transfer artifact x \(all of it: .*/maven.log\)"):
            hadoop_jars(Java(tmp_path, 17), cache=tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DownloadError, match=r"file/cache: .*Set QUICKSILVER_CACHE"):
        hadoop_jars(Java(tmp_path, 17), cache=tmp_path / "file" / "cache")


def test_the_cache_may_lie_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUICKSILVER_CACHE", "/big/disk")
    assert cache_dir() == Path(f"/big/disk/hadoop-{DEFAULT}")
