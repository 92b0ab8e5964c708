"""Three hosts on one machine: containers with systemd and sshd, each with a network of its own, joined by a bridge."""

from __future__ import annotations

import os
import subprocess
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from quicksilver_lab.cluster.siteconf import write_site
from quicksilver_lab.workloads.servers.dockerd import Dockerd, running_dockerd
from tests.real.deploy.linux_root import HADOOP_LIB

ADDRESSES: Final = {"rm1": "10.231.7.11", "node1": "10.231.7.21", "node2": "10.231.7.22"}
IMAGE: Final = "quicksilver/host"
NAMESPACES: Final = Path("/run/netns")
_GATEWAY: Final = "10.231.7.1"
_UP_S: Final = 60.0
_CALL_S: Final = 120.0
_CAPABILITIES: Final = ("SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "DAC_READ_SEARCH")
_RECOVERY: Final = "org.apache.hadoop.yarn.server.resourcemanager.recovery"
LOG4J: Final = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%p %c: %m%n
"""


def is_mounted(path: Path) -> bool:
    """Return whether something is mounted there, be it a folder of the same file system."""
    return any(line.split()[4] == str(path) for line in Path("/proc/self/mountinfo").read_text().splitlines())


class Hosts:
    """The containers rm1, node1 and node2, and the network namespace from which they are reached."""

    def __init__(self, daemon: Dockerd, folder: Path, hadoop_lib: Path) -> None:
        """folder: for keys and files that hosts share; hadoop_lib: Hadoop's jars."""
        self.daemon, self.folder, self.hadoop_lib = daemon, folder, hadoop_lib
        self.network = f"quicksilver-{os.getpid()}"
        self.key, self.shared = folder / "id_ed25519", folder / "shared"
        self._mounted = is_mounted(NAMESPACES)

    def start(self, root: Path) -> None:
        """Make the image of `root`, start the containers, and wait until sshd answers in each."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.shared.mkdir(exist_ok=True)
        self.shared.chmod(0o1777)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)])
        self._import(root)
        run(["ip", "netns", "add", self.network])
        self.inside(["ip", "link", "set", "lo", "up"])
        self.inside(["ip", "link", "add", "hosts", "type", "bridge"])
        self.inside(["ip", "address", "add", f"{_GATEWAY}/24", "dev", "hosts"])
        self.inside(["ip", "link", "set", "hosts", "up"])
        for name in ADDRESSES:
            self._run(name)
        for name in ADDRESSES:
            self._wait(name)

    def close(self) -> None:
        """Remove the network; the containers end with their daemon."""
        subprocess.run(["ip", "netns", "delete", self.network], check=False, capture_output=True)
        if not self._mounted and is_mounted(NAMESPACES):  # `ip netns add` made it a mount of its own
            run(["umount", str(NAMESPACES)])
            NAMESPACES.rmdir()

    def inside(self, command: Sequence[str], **more: str) -> str:
        """Run a command in the hosts' network; return its output."""
        return run(["nsenter", f"--net=/run/netns/{self.network}", *command], env={**os.environ, **more})

    def on(self, host: str, *command: str, user: str = "root") -> str:
        """Run a command on a host; return its output."""
        return self.daemon.docker("exec", "--user", user, host, *command)

    def read(self, host: str, path: str) -> bytes:
        """Return a file of a host."""
        command = ["docker", "exec", host, "cat", path]
        env = {**os.environ, **self.daemon.docker_cli_env}
        return subprocess.run(command, check=True, capture_output=True, env=env, timeout=_CALL_S).stdout

    def files(self, host: str, *folders: str) -> dict[str, str]:
        """Return the digests of all files below folders of a host."""
        listed = self.on(host, "find", *folders, "-type", "f", "-exec", "sha256sum", "{}", "+")
        return {path: digest for digest, path in (line.split(maxsplit=1) for line in listed.splitlines())}

    def wait_for(self, host: str, script: str, within_s: float = _UP_S) -> None:
        """Wait until a shell script on a host succeeds."""
        until_s = time.monotonic() + within_s
        while True:
            command = ["docker", "exec", host, "sh", "-c", script]
            env = {**os.environ, **self.daemon.docker_cli_env}
            done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=_CALL_S, check=False)
            if done.returncode == 0:
                return
            assert time.monotonic() < until_s, f"{host}: {script}: {done.stdout}{done.stderr}"
            time.sleep(0.5)

    def _import(self, root: Path) -> None:
        archive = self.folder / "root.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(root, ".")
        self.daemon.docker("import", str(archive), IMAGE, timeout_s=300)
        archive.unlink()

    def _run(self, name: str) -> None:
        names = [f"--add-host={host}:{address}" for host, address in ADDRESSES.items()]
        conf = self.folder / "conf" / name
        write_site_files(conf, name)
        authorized = f"{self.key.with_suffix('.pub')}:/root/.ssh/authorized_keys.given:ro"
        mounts = [f"{self.hadoop_lib}:{HADOOP_LIB}:ro", f"{self.shared}:/shared", "/sys/fs/cgroup:/sys/fs/cgroup"]
        mounts += [f"{conf}:/etc/hadoop/conf", authorized]
        command = ["run", "--detach", "--name", name, "--hostname", name, "--network", "none", "--cgroupns", "host"]
        command += [
            "--security-opt",
            "seccomp=unconfined",
            "--security-opt",
            "apparmor=unconfined",
            "--env",
            "container=docker",
        ]
        command += ["--tmpfs", "/run", "--tmpfs", "/run/lock", "--stop-signal", "SIGRTMIN+3", *names]
        command += [f"--cap-add={capability}" for capability in _CAPABILITIES]
        command += [word for mount in mounts for word in ("--volume", mount)]
        self.daemon.docker(*command, IMAGE, "/lib/systemd/systemd", timeout_s=300)
        pid = self.daemon.docker("inspect", "--format", "{{.State.Pid}}", name)
        self.inside(["ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", pid])
        self.inside(["ip", "link", "set", name, "master", "hosts", "up"])
        of_host = ["nsenter", f"--net=/proc/{pid}/ns/net", "ip"]
        run([*of_host, "address", "add", f"{ADDRESSES[name]}/24", "dev", "eth0"])
        run([*of_host, "link", "set", "eth0", "up"])

    def _wait(self, name: str) -> None:
        self.wait_for(name, "systemctl is-system-running | grep -Eq 'running|degraded'")
        self.on(name, "install", "-m", "600", "/root/.ssh/authorized_keys.given", "/root/.ssh/authorized_keys")


def write_site_files(folder: Path, host: str) -> None:
    """Write the site files of a stock cluster, those of an admin who knows nothing of quicksilver."""
    folder.mkdir(parents=True)
    write_site(folder / "core-site.xml", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": "/var/lib/hadoop-yarn/tmp"})
    recovery = {
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.store.class": f"{_RECOVERY}.FileSystemRMStateStore",
        "yarn.resourcemanager.fs.state-store.uri": "file:///var/lib/hadoop-yarn/state",
        "yarn.nodemanager.recovery.enabled": "true",
        "yarn.nodemanager.recovery.supervised": "true",
        "yarn.nodemanager.recovery.dir": "/var/lib/hadoop-yarn/recovery",
    }
    node = {
        "yarn.nodemanager.hostname": host,
        "yarn.nodemanager.address": f"{host}:8041",
        "yarn.nodemanager.aux-services": "mapreduce_shuffle",
        "yarn.nodemanager.resource.memory-mb": "2048",
        "yarn.nodemanager.resource.cpu-vcores": "8",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.local-dirs": "/var/lib/hadoop-yarn/local",
        "yarn.nodemanager.log-dirs": "/var/lib/hadoop-yarn/logs",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.5",
    }
    yarn = {
        "yarn.resourcemanager.hostname": "rm1",
        "yarn.scheduler.minimum-allocation-mb": "256",
        "yarn.scheduler.maximum-allocation-mb": "2048",
        "yarn.application.classpath": f"/etc/hadoop/conf,{HADOOP_LIB}/*",
        "yarn.node-attribute.fs-store.root-dir": "file:///var/lib/hadoop-yarn/node-attribute",
        **recovery,
        **(node if host.startswith("node") else {}),
    }
    write_site(folder / "yarn-site.xml", yarn)
    options = "-Xmx160m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Djava.net.preferIPv4Stack=true"
    mapred = {
        "mapreduce.framework.name": "yarn",
        "mapreduce.application.classpath": f"{HADOOP_LIB}/*",
        "yarn.app.mapreduce.am.staging-dir": "/shared/staging",
        "yarn.app.mapreduce.am.resource.mb": "512",
        "yarn.app.mapreduce.am.command-opts": options,
        "mapreduce.map.memory.mb": "256",
        "mapreduce.map.java.opts": options,
        "mapreduce.reduce.memory.mb": "256",
        "mapreduce.reduce.java.opts": options,
        "mapreduce.task.io.sort.mb": "20",
    }
    write_site(folder / "mapred-site.xml", mapred)
    root = "yarn.scheduler.capacity.root"
    capacity = {f"{root}.queues": "default", f"{root}.default.capacity": "100"}
    capacity |= {
        f"{root}.default.maximum-capacity": "100",
        "yarn.scheduler.capacity.maximum-am-resource-percent": "0.5",
    }
    write_site(folder / "capacity-scheduler.xml", capacity)
    (folder / "log4j.properties").write_text(LOG4J)


def run(command: Sequence[str], *, env: dict[str, str] | None = None, timeout_s: float = _CALL_S) -> str:
    """Run a command of this machine; return its output."""
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def three_hosts(folder: Path, root: Path, hadoop_lib: Path) -> Iterator[Hosts]:
    """Run the three hosts for the time of a with block. `folder` has a short path: there are sockets in it."""
    with running_dockerd(folder / "d") as daemon:
        hosts = Hosts(daemon, folder / "h", hadoop_lib)
        try:
            hosts.start(root)
            yield hosts
        finally:
            hosts.close()
