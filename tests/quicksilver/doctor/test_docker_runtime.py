"""YARN's Docker runtime: whose control groups its containers are in, and which resizer finds them there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.quicksilver.doctor.words import ALL_Q, LAS, copy_of

_NM: Final = "yarn.nodemanager"
DOCKER: Final = {
    f"{_NM}.container-executor.class": "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor",
    f"{_NM}.runtime.linux.allowed-runtimes": "default,docker",
}
CGROUPS: Final = {f"{_NM}.resource.cpu.enabled": "true"}
VERSION2: Final = {f"{_NM}.linux-container-executor.cgroups.v2.enabled": "true"}


def found(folder: Path, settings: str, put: dict[str, str]) -> list[dict[str, Any]]:
    """Return what doctor says of a node with these properties."""
    copy = copy_of(folder, settings, resource_calculator="dominant")
    copy.change("nm1", "yarn-site.xml", put)
    return [one for one in copy.look()["findings"] if one["code"] == "docker-runtime"]


@pytest.mark.parametrize("more", [{}, CGROUPS | VERSION2], ids=["no groups", "groups of version 2"])
def test_containers_in_dockers_own_groups_need_its_engine(tmp_path: Path, more: dict[str, str]) -> None:
    (one,) = found(tmp_path, LAS, DOCKER | more)
    assert (one["severity"], one["remedy"]["text"]) == ("warning", "set sidecar.resizer=docker")


@pytest.mark.parametrize(
    ("settings", "more"),
    [(LAS, CGROUPS), (ALL_Q, {}), (LAS.replace("vcores: 4", "vcores: 4, resizer: docker"), {})],
    ids=["groups of version 1", "nothing is shrunk", "the engine is asked"],
)
def test_nothing_is_said_else(tmp_path: Path, settings: str, more: dict[str, str]) -> None:
    assert found(tmp_path, settings, DOCKER | more) == []
