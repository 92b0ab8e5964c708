"""The proxy's image, built from an imported base by a private Docker daemon: small, not root, and it answers."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver_lab.cluster.ports import free_port
from quicksilver_lab.workloads.containers.engine import ContainerEngine, engine
from quicksilver_lab.workloads.containers.images import Image, ImagePlan, build
from quicksilver_lab.workloads.rest import get_json
from quicksilver_lab.workloads.servers.dockerd import missing

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900), pytest.mark.skipif(missing() != "", reason=missing())]

HEALTHY_S = 40.0


@pytest.fixture(scope="module")
def docker() -> Iterator[ContainerEngine]:
    with engine(lambda _: None, private=True) as found:
        yield found


@pytest.fixture(scope="module")
def proxy(docker: ContainerEngine, tmp_path_factory: pytest.TempPathFactory) -> Image:
    plan = ImagePlan(tag="test", build_dir=tmp_path_factory.mktemp("build"))
    return build(docker, plan, lambda _: None, ["proxy"])[0]


def settings(folder: Path) -> tuple[Path, int]:
    """Write what an admin mounts into the container; return the folder and the REST port."""
    listen, rest, scheduler, web = (free_port() for _ in range(4))
    folder.chmod(0o755)
    properties = {
        "yarn.resourcemanager.scheduler.address": f"127.0.0.1:{listen}",
        "yarn.resourcemanager.webapp.address": f"127.0.0.1:{web}",
    }
    rows = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in properties.items())
    (folder / "yarn-site.xml").write_text(f"<configuration>{rows}</configuration>")
    lines = f"proxy: {{upstream: 127.0.0.1:{scheduler}, rest_listen: 127.0.0.1:{rest}}}\npolicies: {{}}\n"
    (folder / "quicksilver.yaml").write_text(lines)
    return folder, rest


def test_the_image_is_small_and_not_root(docker: ContainerEngine, proxy: Image) -> None:
    assert proxy.name == "quicksilver/proxy:test"
    assert 100 < proxy.size_mb < 400
    run = ["run", "--rm", "--network=none", "--entrypoint=id", proxy.name, "-u"]
    assert proxy.user == "10001:10001" and docker.docker(*run) == "10001"


def test_the_program_is_complete(docker: ContainerEngine, proxy: Image) -> None:
    run = ["run", "--rm", "--network=none", "--read-only", proxy.name]
    version = docker.docker(*run, "--version")
    assert version.split()[-1] == importlib.metadata.version("yarn-quicksilver")
    assert "hybrid_gq" in docker.docker(*run, "policy", "list")  # entry points of the distribution


def test_its_daemon_answers_and_docker_knows_it_as_healthy(
    docker: ContainerEngine, proxy: Image, tmp_path: Path
) -> None:
    folder, rest = settings(tmp_path)
    mounts = [
        "-v",
        f"{folder}:/etc/hadoop/conf:ro",
        "-v",
        f"{folder}/quicksilver.yaml:/etc/quicksilver/quicksilver.yaml:ro",
    ]
    health = f"HEALTH_URL=http://127.0.0.1:{rest}/v1/health"
    name = docker.docker("run", "-d", "--network=host", "--init", "-e", health, *mounts, proxy.name)
    until_s = time.monotonic() + HEALTHY_S
    try:
        while (state := docker.docker("inspect", "--format", "{{.State.Health.Status}}", name)) != "healthy":
            assert time.monotonic() < until_s, (state, docker.docker("logs", name))
            time.sleep(0.5)
        answer = get_json(f"http://127.0.0.1:{rest}/v1/health")
        assert answer["version"] == importlib.metadata.version("yarn-quicksilver")
        assert answer["store"].startswith("sqlite:////var/lib/quicksilver/")
    finally:
        docker.docker("rm", "--force", "--volumes", name)
