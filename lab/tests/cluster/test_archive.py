"""Which classes are archived, and who uses the archive."""

from pathlib import Path

import pytest

from quicksilver_lab.cluster.archive import merged
from quicksilver_lab.cluster.baseconf import mapred_site
from quicksilver_lab.cluster.commands import Launcher
from quicksilver_lab.cluster.runtime.jars import Jars, archive_file
from quicksilver_lab.cluster.runtime.java import Java
from quicksilver_lab.cluster.spec import ClusterSpec

LIB = Path("/cache/lib")


def test_each_class_once_and_none_of_another_loader() -> None:
    one = "# NOTE: generated\njava/lang/Object\norg/apache/A\n@lambda-proxy org/apache/A run\n"
    other = "java/lang/Object\norg/apache/B\nSecret id: 9 super: 1 source: /x.jar\n\n"
    kept = ["java/lang/Object", "org/apache/A", "@lambda-proxy org/apache/A run", "org/apache/B"]
    assert merged([one, other]) == kept
    assert merged([]) == []
    assert merged(["A id: 0\nB id: 1\n", "C id: 0\nB id: 7\n"]) == ["A", "B", "C"], "as Java 21 writes them"


def test_an_archive_is_for_one_java_and_one_set_of_jars(tmp_path: Path) -> None:
    lib, home = tmp_path / "lib", tmp_path / "jdk"
    lib.mkdir()
    home.mkdir()
    java = Java(home, 17)
    assert archive_file(lib, Java(home, 11)) is None
    archives = {archive_file(lib, java)}
    (lib / ".pom.sha256").write_text("other jars")
    archives.add(archive_file(lib, java))
    (home / "release").write_text("JAVA_VERSION=17.0.99")
    archives.add(archive_file(lib, java))
    archives.add(archive_file(lib, Java(tmp_path, 17)))
    assert len(archives) == 4
    assert {path.parent for path in archives if path} == {tmp_path}


@pytest.mark.parametrize("archive", [None, Path("/cache/classes.jsa")])
def test_daemons_and_tasks_map_it_behind_a_classpath_that_begins_with_the_jars(archive: Path | None) -> None:
    jars, spec = Jars(LIB, archive), ClusterSpec(workdir=Path("/w"), jvm_opts=("-XX:+Own",))
    launcher = Launcher(Java(Path("/jdk"), 17), jars, Path("/hosts"), java_opts=tuple(jars.sharing))
    argv = launcher.argv("x.Y", (), Path("/conf"), 64)
    assert argv[argv.index("-cp") + 1] == "/cache/lib/*:/conf"
    site = mapred_site(spec, jars, Path("/hosts"))
    for name in ("mapreduce.map.java.opts", "mapreduce.reduce.java.opts", "yarn.app.mapreduce.am.command-opts"):
        assert "-XX:+Own" in site[name]
        assert ("-XX:SharedArchiveFile=/cache/classes.jsa -cp /cache/lib/*:$CLASSPATH" in site[name]) == bool(archive)
    assert ("-XX:SharedArchiveFile=/cache/classes.jsa" in argv) == bool(archive)
