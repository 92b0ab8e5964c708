"""A whole node under LinuxContainerExecutor: containers of another user in control groups of the NodeManager.

The NodeManager is not root's; the sidecar is root's, or the NodeManager's user's.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.executors.linux_executor import LinuxExecutor, linux_executor, why_not
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.servers.dockerd import Dockerd, missing
from sidecar.resizer.cgroup import files
from tests.real.kernels.executor_node import (
    CPU,
    HADOOP,
    TOP,
    V2,
    busy,
    kairos,
    needs_cgroups,
    outlives_sigkill,
    own_top,
    spec_of,
)
from tests.real.kernels.users import OverridingDaemons, UsersCluster, UsersDaemons, give_group, nm_group

pytestmark = [
    pytest.mark.hadoop,
    pytest.mark.cgroup,
    pytest.mark.long,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]
IMAGE: Final = "quicksilver/bash"
_RUNTIME: Final = "yarn.nodemanager.runtime.linux"
_SOCKET: Final = Path("/var/run/docker.sock")
_OOM: Final = "oom_score_adj could not be set"


@pytest.fixture(scope="module")
def executor(request: pytest.FixtureRequest) -> Iterator[LinuxExecutor]:
    needs_cgroups()
    features = {} if V2 or missing() else {"docker": docker_section(request.getfixturevalue("dockerd"))}
    with linux_executor(nm_group(), features, HADOOP) as one, pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUICKSILVER_CACHE", str(one.cache))
        yield one


def docker_section(dockerd: Dockerd) -> dict[str, str]:
    """Return the section of container-executor.cfg that lets it ask a Docker daemon."""
    client = dockerd.folder / "docker"
    client.write_text(f'#!/bin/sh\nDOCKER_HOST={dockerd.url} DOCKER_CONFIG={dockerd.folder}/cli exec docker "$@"\n')
    client.chmod(0o755)
    return {
        "module.enabled": "true",
        "docker.binary": str(client),
        "docker.allowed.networks": "none",
        "docker.allowed.rw-mounts": "{folder}/cluster",
        "docker.allowed.ro-mounts": "{folder}/cluster,{folder}/shared",
        "docker.trusted.registries": IMAGE.partition("/")[0],
        "docker.privileged-containers.enabled": "false",
    }


@contextmanager
def asked_by_everybody(dockerd: Dockerd) -> Iterator[None]:
    """Let the NodeManager's user find the daemon where Docker's clients look for it.

    As that user container-executor asks for the kind of a network, with /usr/bin/docker and without environment,
    whatever docker.binary says.
    """
    if _SOCKET.exists():
        pytest.skip(f"{_SOCKET} is another Docker daemon's")
    shutil.chown(dockerd.socket, group=nm_group())
    dockerd.folder.chmod(0o711)
    _SOCKET.symlink_to(dockerd.socket)
    try:
        yield
    finally:
        _SOCKET.unlink()


@pytest.fixture(scope="module")
def cluster(executor: LinuxExecutor) -> Iterator[Cluster]:
    yarn = {
        f"{_RUNTIME}.allowed-runtimes": "default" if V2 or missing() else "default,docker",
        f"{_RUNTIME}.docker.allowed-container-networks": "none",
        f"{_RUNTIME}.docker.default-container-network": "none",
        f"{_RUNTIME}.docker.capabilities": "none",
        "yarn.nodemanager.log-container-debug-info.enabled": "false",
    }
    one = UsersCluster(spec_of(executor, **yarn))
    give_group(TOP)
    try:
        one.start()
        yield one
    finally:
        one.stop()
        tops = [TOP] if V2 else CPU.parent.glob(f"*/{TOP.name}")  # Docker makes them for each controller
        files.remove_empty(group for top in tops for group in (*top.glob("container_*"), top))


@pytest.fixture
def gate(executor: LinuxExecutor) -> Iterator[Path]:
    folder = executor.folder / "shared"
    folder.mkdir()
    yield folder / "gate"
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", [LocalDaemons, UsersDaemons, OverridingDaemons])
def test_containers_are_free_soon_after_the_sidecars_death(
    cluster: Cluster, gate: Path, kind: type[LocalDaemons]
) -> None:
    async def run() -> None:
        async with busy(cluster, kairos(cluster, kind)) as (node, am):
            await outlives_sigkill(node, am, gate, [f"until [ -e {gate} ]; do :; done"] * 6)
        assert (_OOM in node.stack.log("node1").read_text()) == (kind is UsersDaemons)

    asyncio.run(run())


def test_without_groups_of_the_nodemanager_the_sidecar_makes_its_own(executor: LinuxExecutor, gate: Path) -> None:
    """Its default resources handler: the sidecar, which is root's, moves another user's processes."""
    spec = spec_of(executor, None)
    one = UsersCluster(spec.model_copy(update={"workdir": spec.workdir.with_name("without")}))

    async def run() -> None:
        async with busy(one, kairos(one), own_top(one)) as (node, am):
            await outlives_sigkill(node, am, gate, [f"until [ -e {gate} ]; do :; done"] * 6)

    one.start()
    try:
        asyncio.run(run())
    finally:
        one.stop()


@pytest.mark.docker
@pytest.mark.skipif(V2, reason="Hadoop puts Docker's containers into the NodeManager's groups under cgroup v1 alone")
def test_docker_containers_are_free_soon_after_the_sidecars_death(
    cluster: Cluster, gate: Path, request: pytest.FixtureRequest
) -> None:
    dockerd: Dockerd = request.getfixturevalue("dockerd")
    bash, busybox = Path("/bin/bash"), Path(shutil.which("busybox") or "")
    tools = {f"bin/{name}": busybox for name in ("chmod", "cp", "find", "ln", "mkdir")}
    dockerd.import_image(IMAGE, {"bin/bash": bash, **tools, **libraries(bash)})
    runtime = {
        "YARN_CONTAINER_RUNTIME_TYPE": "docker",
        "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE": IMAGE,
        "YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS": f"{gate.parent}:{gate.parent}:ro",
    }
    context = y.ContainerLaunchContextProto(command=[f"until [ -e {gate} ]; do :; done"])
    for key, value in runtime.items():
        context.environment.add(key=key, value=value)

    async def run() -> None:
        async with busy(cluster, kairos(cluster)) as (node, am):
            await outlives_sigkill(node, am, gate, [context] * 6)

    with asked_by_everybody(dockerd):
        asyncio.run(run())


def libraries(program: Path) -> dict[str, Path]:
    """Return the libraries of a program, by their path in an image."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    paths = [Path(word) for line in said.splitlines() for word in line.split() if word.startswith("/")]
    return {str(path).lstrip("/"): path for path in paths}
