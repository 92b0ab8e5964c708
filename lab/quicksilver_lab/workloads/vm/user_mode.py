"""Linux as an ordinary program (user-mode Linux), with cgroup v2: it sees this machine's files and runs one command.

It needs no help of the processor and is about as fast as this machine, on one core: a whole Hadoop node fits. Debian's
package `user-mode-linux` is fetched with apt and never installed. Files are read-only but for /tmp, /run and /var/lib,
which are in memory; there is no network but the loopback interface. PSI is off in this kernel: what needs it runs in
the machine of `machine.py`.
"""

import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Final

from quicksilver_lab.workloads.vm.kernel import KernelMissingError, download
from quicksilver_lab.workloads.vm.machine import MARK, MachineError, VmEnded

PACKAGE: Final = "user-mode-linux"
KEPT: Final = ("PATH", "HOME", "JAVA_HOME", "PYTHONPATH")
"""Environment variables of the command, besides those that begin with QUICKSILVER_."""
_GRACE_S: Final = 5.0
_INIT: Final = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/shm && mount -t tmpfs shm /dev/shm
mount -t tmpfs memory /tmp
for folder in /run /var/lib; do mount -t tmpfs -o mode=755 memory $folder; done
chmod 1777 /tmp /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
export {environment}
/bin/sh -c {command} < /dev/null
echo "{mark}$?"
poweroff -d -f
"""


def find_linux(cache: Path) -> Path:
    """Return the program in `cache`, fetched when it is not there yet. Raises KernelMissingError."""
    if os.uname().machine != "x86_64":
        raise KernelMissingError(f"{PACKAGE} is for x86_64, not for {os.uname().machine}")
    program = cache / PACKAGE / "linux.uml"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        package = download(PACKAGE, program.parent)
        unpacked = program.parent / "unpacked"
        subprocess.run(["dpkg-deb", "-x", package, unpacked], check=True)
        shutil.move(unpacked / "usr" / "bin" / program.name, program)
        shutil.rmtree(unpacked)
        package.unlink()
    return program


def run(program: Path, folder: Path, command: str, scratch: Path, *, memory_mb: int, timeout_s: float) -> VmEnded:
    """Boot, run `command` with /bin/sh in `folder`, power off. Raises MachineError when no exit code came.

    It has what this process' environment has of `KEPT`.
    """
    init = scratch / "init"
    inside = shlex.quote(f"cd {shlex.quote(str(folder))} && {command}")
    variables = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("QUICKSILVER_")}
    environment = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    init.write_text(_INIT.format(command=inside, mark=MARK, environment=environment))
    init.chmod(0o755)
    argv = [
        str(program),
        f"mem={memory_mb}M",
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        f"init={init}",
    ]
    argv += ["con=null", "con0=fd:0,fd:1", "quiet", f"uml_dir={scratch}", "umid=machine"]
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as linux:
        try:
            output, _ = linux.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            output = _ended(linux)
            raise MachineError(f"no exit code within {timeout_s} s:\n{output[-4000:]}") from None
        finally:
            _kill(linux)
    before, mark, after = output.replace("\r", "").rpartition(MARK)
    if not mark:
        raise MachineError(f"it ended with {linux.returncode}:\n{output[-4000:]}")
    return VmEnded(int(after.split()[0]), before)


def _ended(linux: subprocess.Popen[str]) -> str:
    """End it with all that it runs, and return its output."""
    linux.terminate()
    try:
        return linux.communicate(timeout=_GRACE_S)[0]
    except subprocess.TimeoutExpired:
        _kill(linux)
        return linux.communicate()[0]


def _kill(linux: subprocess.Popen[str]) -> None:
    """End what is left: its processes are processes here, in its group."""
    try:
        os.killpg(linux.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
