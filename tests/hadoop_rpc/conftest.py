"""What the tests of the wire share: recorded conversations, and one real ResourceManager."""

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from quicksilver_lab.cluster.ports import free_port
from quicksilver_lab.cluster.runtime.jars import hadoop_jars
from quicksilver_lab.cluster.runtime.java import find_java
from tests.paths import DATA

RECORDED = DATA / "hadoop_rpc"


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded connection. chunks: who ("client" or "server") sent what; password: the token's, if it is known."""

    chunks: list[tuple[str, bytes]]
    password: bytes


@pytest.fixture
def recorded() -> Callable[[str], Recording]:
    """Read a conversation of tests/data/hadoop_rpc by its name."""

    def read(name: str) -> Recording:
        rows = [line.split(" ") for line in (RECORDED / f"{name}.txt").read_text().splitlines()]
        lines = [(who, bytes.fromhex(data)) for who, data in rows]
        password = b"".join(data for who, data in lines if who == "password")
        return Recording([line for line in lines if line[0] != "password"], password)

    return read


@dataclass(frozen=True, slots=True)
class RealRm:
    """The ports, on 127.0.0.1, of a ResourceManager without nodes."""

    client_port: int
    scheduler_port: int


def _site(path: Path, properties: dict[str, str]) -> None:
    rows = "".join(f"<property><name>{k}</name><value>{v}</value></property>\n" for k, v in properties.items())
    path.write_text(f"<configuration>\n{rows}</configuration>\n")


def _configure(folder: Path, ports: list[int]) -> None:
    folder.mkdir()
    services = ("", "scheduler.", "resource-tracker.", "admin.", "webapp.")
    addresses = {
        f"yarn.resourcemanager.{service}address": f"127.0.0.1:{port}"
        for service, port in zip(services, ports, strict=True)
    }
    _site(folder / "core-site.xml", {"hadoop.tmp.dir": str(folder / "tmp")})
    (folder / "tmp").mkdir()
    addresses["yarn.node-attribute.fs-store.root-dir"] = f"file://{folder}/tmp/node-attribute"
    _site(folder / "yarn-site.xml", addresses)
    queues = {"root.queues": "default", "root.default.capacity": "100", "maximum-am-resource-percent": "1.0"}
    _site(folder / "capacity-scheduler.xml", {f"yarn.scheduler.capacity.{key}": v for key, v in queues.items()})


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until_s = time.monotonic() + 90
    while time.monotonic() < until_s and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail(f"the ResourceManager did not open port {port}: {log.read_text()[-2000:]}")


@pytest.fixture(scope="session")
def real_rm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRm]:
    """Start a ResourceManager of the Hadoop that the product is tested with; stop it at the end."""
    java = find_java()
    jars = hadoop_jars(java)
    folder = tmp_path_factory.mktemp("rm")
    ports = [free_port() for _ in range(5)]
    _configure(folder / "conf", ports)
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.util", "java.net")]
    own = ["-XX:-UsePerfData", f"-Djava.io.tmpdir={folder / 'conf' / 'tmp'}"]
    quick = [*jars.sharing, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    options = [*own, *quick, "-Xmx384m", "-XX:+IgnoreUnrecognizedVMOptions", "-Djava.net.preferIPv4Stack=true", *opened]
    main = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
    argv = [str(java.executable), *options, "-cp", f"{jars.classpath}:{folder / 'conf'}", main]
    log = folder / "rm.log"
    with log.open("wb") as out, subprocess.Popen(argv, cwd=folder, stdout=out, stderr=out) as process:
        try:
            for port in ports[:2]:
                _await_port(process, port, log)
            yield RealRm(*ports[:2])
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
