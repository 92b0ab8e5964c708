"""A folder laid out like a host of a distribution, with programs in place of systemd's and a cloud's."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.packages import layout
from tests.paths import ROOT

VERSION: Final = "yarn-quicksilver-0.1.0"
SYSTEMCTL: Final = """\
#!/bin/sh
# Writes to `calls` what it is asked for; a start runs the ExecStartPre of the unit's drop-in, as systemd does.
root=$QUICKSILVER_ROOT
state=$root/systemd
word=$1
shift
while [ "${1#--}" != "$1" ]; do
  if [ "$1" = --now ]; then now=yes; fi
  shift
done
unit=${1:-}
begin() {
  if [ -e "$state/broken-$unit" ]; then echo "failed $unit" >>"$root/calls"; rm -f "$state/active-$unit"; return 1; fi
  drop_in=$root/etc/systemd/system/$unit.d/quicksilver.conf
  sed -n 's/^ExecStartPre=-+//p' "$drop_in" 2>/dev/null | while read -r line; do $line; done
  touch "$state/active-$unit"
}
case $word in
is-active) [ -e "$state/active-$unit" ]; exit ;;
is-enabled) [ -e "$state/enabled-$unit" ]; exit ;;
daemon-reload | reset-failed) exit ;;
enable)
  if ! [ -e "$state/enabled-$unit" ]; then echo "enable $unit" >>"$root/calls"; touch "$state/enabled-$unit"; fi
  if [ "${now:-}" = yes ] && ! [ -e "$state/active-$unit" ]; then echo "start $unit" >>"$root/calls"; begin; fi ;;
disable) rm -f "$state/enabled-$unit" ;;
stop) echo "stop $unit" >>"$root/calls"; rm -f "$state/active-$unit" ;;
*) echo "$word $unit" >>"$root/calls"; begin ;;
esac
"""
PROGRAMS: Final = {
    "systemctl": SYSTEMCTL,
    "systemd-run": '#!/bin/sh\nshift\n"$@" 2>>"$QUICKSILVER_ROOT/journal"\nexit 0\n',
    "hostname": "#!/bin/sh\necho node1.example\n",
    "id": "#!/bin/sh\necho 0\n",
    "getent": "#!/bin/sh\nexit 2\n",
    "sleep": "#!/bin/sh\n",
    "aws": '#!/bin/sh\ncp "$QUICKSILVER_ROOT/bucket/${4#s3://bucket/}" "$5"\n',
    "gsutil": "#!/bin/sh\nexit 1\n",
    "gcloud": '#!/bin/sh\ncp "$QUICKSILVER_ROOT/bucket/${3#gs://bucket/}" "$4"\n',
}
YARN_SITE: Final = """\
<?xml version="1.0"?>
<configuration>
  <!-- the manager's own words -->
  <property><name>yarn.resourcemanager.hostname</name><value>rm.example</value></property>
  <property><name>yarn.nodemanager.address</name><value>${yarn.nodemanager.hostname}:8041</value></property>
  <property><name>yarn.nodemanager.resource.cpu-vcores</name><value>4</value></property>
  <property><name>yarn.nodemanager.recovery.enabled</name><value>true</value></property>
  <property><name>yarn.resourcemanager.recovery.enabled</name><value>true</value></property>
</configuration>
"""


@dataclass(frozen=True)
class FakeHost:
    """A host below `root`, whose configuration directory is reached by the links of `alternatives`."""

    root: Path

    @property
    def conf(self) -> Path:
        return self.root / "etc/hadoop/conf"

    @property
    def hadoop_host(self) -> Path:
        return self.root / "opt/quicksilver/libexec/hadoop-host"

    def run(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command as the host's root would."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(("QUICKSILVER", "HADOOP"))}
        env |= {"QUICKSILVER_ROOT": str(self.root), "PATH": f"{self.root}/programs:{os.environ['PATH']}"} | environment
        return subprocess.run(
            list(map(str, command)), capture_output=True, text=True, env=env, timeout=280, check=False
        )

    def calls(self) -> list[str]:
        """Return what systemd was asked to do since the last call."""
        file = self.root / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def active(self, unit: str) -> bool:
        return (self.root / "systemd" / f"active-{unit}.service").exists()

    def files(self) -> dict[str, bytes]:
        """Return the site files, without backups."""
        return {file.name: file.read_bytes() for file in self.conf.iterdir() if ".before-" not in file.name}

    def unpack(self) -> None:
        """Put the archive where the package puts it."""
        with tarfile.open(self.root / "bucket" / f"{VERSION}.tar.gz") as archive:
            archive.extractall(self.root / "opt", filter="tar")
        (self.root / "opt/quicksilver").symlink_to(VERSION)


def fake_host(folder: Path, *running: str, link: str = "etc/hadoop/conf.empty") -> FakeHost:
    """Make a host: Hadoop's daemons that run, and where the alternatives of /etc/hadoop/conf lead to."""
    for name in ("etc/alternatives", "systemd", "programs", "bucket", "opt", link):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "etc/alternatives/hadoop-conf").symlink_to(folder / link)
    (folder / "etc/hadoop/conf").symlink_to(folder / "etc/alternatives/hadoop-conf")
    (folder / link / "yarn-site.xml").write_text(YARN_SITE)
    (folder / link / "yarn-env.sh").write_text("export YARN_PID_DIR=/run/hadoop-yarn\n")
    for name, text in PROGRAMS.items():
        write_program(folder / "programs" / name, text)
    for role in running:
        (folder / "systemd" / f"active-hadoop-yarn-{role}.service").touch()
    pack(folder)
    return FakeHost(folder)


def write_program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def pack(folder: Path) -> None:
    """Write the archive and the keys into the bucket; the archive's program is that of this checkout."""
    prefix = folder / "build" / VERSION
    layout.common(prefix, ROOT)
    path = f"{ROOT}:{ROOT}/apps:{ROOT}/lab"
    write_program(
        prefix / "bin/quicksilver", f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} -m quicksilver "$@"\n'
    )
    layout.normalize(prefix, layout.PROGRAMS, 0)
    with tarfile.open(folder / "bucket" / f"{VERSION}.tar.gz", "w:gz") as archive:
        archive.add(prefix, VERSION)
    keys = folder / "build/keys"
    (keys / "ca").mkdir(parents=True)
    for words in (
        ("init", "--dir", keys / "ca"),
        ("token", "admin", keys / "tokens"),
        ("token", "read", keys / "tokens"),
    ):
        subprocess.run([prefix / "bin/quicksilver", "certs", *words], check=True, capture_output=True, timeout=60)
    with tarfile.open(folder / "bucket/keys.tar.gz", "w:gz") as archive:
        archive.add(keys, ".")
