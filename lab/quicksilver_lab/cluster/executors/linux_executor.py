"""Hadoop's native container-executor where it agrees to run, and what NodeManagers need to use it.

The program comes with each binary distribution of Hadoop and is on no artifact server; QUICKSILVER_CONTAINER_EXECUTOR
names it. It wants to be root's with the setuid bit, and to find `../etc/hadoop/container-executor.cfg` below folders
that only root can write: it is copied into such a folder below /var/lib. Containers run as another user there, who
reads Hadoop's jars and the cluster's files; so these are in the folder, too.
"""

from __future__ import annotations

import errno
import grp
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from quicksilver_lab.cluster.errors import MissingToolError
from quicksilver_lab.cluster.runtime.jars import cache_dir, hadoop_jars
from quicksilver_lab.cluster.runtime.java import find_java
from quicksilver_lab.cluster.runtime.releases import DEFAULT, release
from quicksilver_lab.cluster.siteconf import Properties

VARIABLE: Final = "QUICKSILVER_CONTAINER_EXECUTOR"
USER: Final = "nobody"
"""Who runs containers on a cluster without Kerberos."""
_ROOT: Final = Path("/var/lib")
"""Writable by root alone, on a file system that honours the setuid bit."""
_LCE: Final = "yarn.nodemanager.linux-container-executor"
_CLASS: Final = "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor"
_CGROUPS: Final = "org.apache.hadoop.yarn.server.nodemanager.util.CgroupsLCEResourcesHandler"
_CHECK_S: Final = 30.0


def why_not() -> str:
    """Say why no NodeManager can use LinuxContainerExecutor here, "" when one can."""
    path = os.environ.get(VARIABLE)
    if not path:
        return (
            f"no container-executor: set {VARIABLE} to that of a binary distribution of Hadoop (bin/container-executor)"
        )
    if not os.access(path, os.R_OK | os.X_OK):
        return f"{VARIABLE}={path}: no program that can be read and run"
    return "" if os.geteuid() == 0 else "container-executor has to belong to root: run as root"


@dataclass(frozen=True, slots=True)
class LinuxExecutor:
    """A container-executor that is set up, and the folder that it is in."""

    folder: Path
    group: str
    """The NodeManager's; it may run the program."""
    features: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """More sections of container-executor.cfg; {folder} in a value is the folder above."""

    @property
    def program(self) -> Path:
        """The program."""
        return self.folder / "bin" / "container-executor"

    @property
    def cache(self) -> Path:
        """What QUICKSILVER_CACHE has to be, for containers to find Hadoop's jars."""
        return self.folder / "cache"

    @property
    def workdir(self) -> Path:
        """Where a cluster can be: every user gets there."""
        return self.folder / "cluster"

    def site(self, hierarchy: str | None) -> Properties:
        """Return what yarn-site.xml of a NodeManager has besides; hierarchy: of its control groups, None without.

        Hadoop before 3.5 knows cgroup v1 alone, later ones look for v2 first.
        """
        cgroups = {
            f"{_LCE}.resources-handler.class": _CGROUPS,
            f"{_LCE}.cgroups.hierarchy": hierarchy or "",
            f"{_LCE}.cgroups.mount": "false",
            f"{_LCE}.cgroups.v2.enabled": "true",
        }
        return {
            "yarn.nodemanager.container-executor.class": _CLASS,
            f"{_LCE}.path": str(self.program),
            f"{_LCE}.group": self.group,
            f"{_LCE}.nonsecure-mode.local-user": USER,
            **(cgroups if hierarchy else {}),
        }

    def check(self) -> None:
        """Have the program check its own set-up. Raises MissingToolError with what it says."""
        done = subprocess.run(
            [self.program, "--checksetup"], capture_output=True, text=True, timeout=_CHECK_S, check=False
        )
        if done.returncode:
            output = (done.stdout + done.stderr).strip()
            raise MissingToolError(
                f"{VARIABLE}: it ended with {done.returncode}: {output}. Take one that looks for "
                "../etc/hadoop/container-executor.cfg, as Apache's own does, and has the libraries it needs."
            )

    def write(self, source: Path) -> None:
        """Copy the program, and write its configuration."""
        config = self.folder / "etc" / "hadoop" / "container-executor.cfg"
        for folder in (self.program.parent, config.parent, self.workdir, self.cache):
            folder.mkdir(parents=True)
        lines = [f"{_LCE}.group={self.group}", "min.user.id=1000", "banned.users=root"]
        for name, section in self.features.items():
            lines += [f"[{name}]", *(f"  {key}={value.format(folder=self.folder)}" for key, value in section.items())]
        config.write_text("\n".join([*lines, ""]))
        shutil.copyfile(source, self.program)
        os.chown(self.program, 0, grp.getgrnam(self.group).gr_gid)
        self.program.chmod(0o6050)

    def share_jars(self, version: str = DEFAULT) -> None:
        """Put Hadoop's jars of a version where containers can read them. Raises as `hadoop_jars`."""
        allowed = release(version)
        hadoop_jars(find_java(oldest=allowed.oldest_java, newest=allowed.newest_java), version=version)
        lib = cache_dir(version) / "lib"
        shutil.copytree(lib, self.cache / lib.parent.name / "lib", copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copy2(source, target)


@contextmanager
def linux_executor(
    group: str = "root", features: Mapping[str, Mapping[str, str]] | None = None, version: str = DEFAULT
) -> Iterator[LinuxExecutor]:
    """Set a container-executor up for the time of a with block; its folder is removed afterwards.

    Raises MissingToolError when none can run here.
    """
    if why := why_not():
        raise MissingToolError(why)
    folder = Path(tempfile.mkdtemp(prefix="quicksilver-lce-", dir=_ROOT))
    try:
        folder.chmod(0o755)
        executor = LinuxExecutor(folder, group, features or {})
        executor.write(Path(os.environ[VARIABLE]))
        executor.check()
        executor.share_jars(version)
        yield executor
    finally:
        shutil.rmtree(folder)
