"""Releases of Hadoop that a local cluster runs, and which jars Maven Central has of each."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from quicksilver_lab.cluster.errors import ReleaseError

POM: Final = Path(__file__).with_name("pom.xml")
DEFAULT: Final = "3.4.2"
"""The newest of which RM, NM, HDFS, the examples, GridMix, Rumen, distributed shell and services all resolve."""
_MAVEN: Final = "http://maven.apache.org/POM/4.0.0"
_GROUP: Final = "org.apache.hadoop"
_JAVA_EE: Final = (("javax.activation", "activation", "1.1.1"), ("javax.xml.bind", "jaxb-api", "2.3.1"))
"""Classes that Java 8 brings and later ones do not."""
_USER_CODE: Final = ("hadoop-mapreduce-examples", "hadoop-gridmix", "hadoop-rumen")
"""Programs of users: they run on releases newer than their own."""


@dataclass(frozen=True, slots=True)
class HadoopRelease:
    """One version, as Maven Central has it."""

    version: str
    newest_java: int = 21
    """Later ones lack what its UserGroupInformation calls (Subject.getSubject)."""
    oldest_java: int = 8
    without: frozenset[str] = frozenset()
    """Artifacts of pom.xml that are not there."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Artifacts that are there in another version only; they come without what they depend on."""
    additions: tuple[tuple[str, str, str], ...] = ()
    """More artifacts: group, name and version."""

    def pom(self) -> bytes:
        """Return the list of jars for Maven: pom.xml itself for the default version."""
        if self.version == DEFAULT:
            return POM.read_bytes()
        ET.register_namespace("", _MAVEN)
        project = ET.fromstring(POM.read_bytes())
        tag = f"{{{_MAVEN}}}"
        for number in project.iterfind(f"{tag}properties/{tag}hadoop.version"):
            number.text = self.version
        for dependencies in project.iterfind(f"{tag}dependencies"):
            for dependency in list(dependencies):
                name = dependency.findtext(f"{tag}artifactId", "")
                if name in self.without:
                    dependencies.remove(dependency)
                elif name in self.versions:
                    self._pin(dependency, self.versions[name])
            for parts in self.additions:
                _add(dependencies, "dependency", zip(("groupId", "artifactId", "version"), parts, strict=True))
        return b'<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(project, encoding="unicode").encode()

    def _pin(self, dependency: ET.Element, version: str) -> None:
        for number in dependency.iterfind(f"{{{_MAVEN}}}version"):
            number.text = version
        exclusions = ET.SubElement(dependency, f"{{{_MAVEN}}}exclusions")
        _add(exclusions, "exclusion", [("groupId", "*"), ("artifactId", "*")])

    def version_of(self, artifact: str) -> str:
        """Return the version of one of its artifacts. Raises ReleaseError when Maven Central has none."""
        if artifact in self.without:
            raise ReleaseError(f"Maven Central has no {artifact} {self.version}. Take Hadoop {DEFAULT} for it.")
        return self.versions.get(artifact, self.version)


def _add(parent: ET.Element, name: str, children: zip[tuple[str, str]] | list[tuple[str, str]]) -> None:
    element = ET.SubElement(parent, f"{{{_MAVEN}}}{name}")
    for child, text in children:
        ET.SubElement(element, f"{{{_MAVEN}}}{child}").text = text


_SHELL: Final = "hadoop-yarn-applications-distributedshell"
_SERVICES: Final = "hadoop-yarn-services-core"

RELEASES: Final[Mapping[str, HadoopRelease]] = {
    release.version: release
    for release in (
        HadoopRelease("3.1.1", additions=_JAVA_EE),
        HadoopRelease(
            "3.2.4",
            without=frozenset({_SHELL, _SERVICES}),
            versions=dict.fromkeys(_USER_CODE, "3.1.1"),
            additions=_JAVA_EE,
        ),
        HadoopRelease("3.3.6", without=frozenset({_SHELL})),
        HadoopRelease("3.4.1", without=frozenset({_SHELL}), versions={_USER_CODE[0]: "3.3.6"}),
        HadoopRelease(DEFAULT),
        HadoopRelease(
            "3.5.0",
            oldest_java=17,
            newest_java=25,
            without=frozenset({_SHELL, _SERVICES}),
            versions=dict.fromkeys(_USER_CODE, DEFAULT),
        ),
    )
}


def release(version: str) -> HadoopRelease:
    """Return a release. Raises ReleaseError for one whose jars were never tried."""
    if version not in RELEASES:
        raise ReleaseError(f"Hadoop {version} is not one of {', '.join(RELEASES)}. Take one of them.")
    return RELEASES[version]
