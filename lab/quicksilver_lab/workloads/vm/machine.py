"""A virtual machine with cgroup v2 that sees this one's files, read-only, and runs one command in them.

QEMU boots Debian's kernel with an initramfs of its own (busybox and what mounts 9p). There is no network and no disk;
/tmp and /run are in memory, the rest is the host's root. The command's output comes through the serial console.
"""

import os
import shlex
import shutil
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quicksilver_lab.workloads.vm.initramfs import pack
from quicksilver_lab.workloads.vm.kernel import Kernel

QEMU: Final = "qemu-system-x86_64"
MARK: Final = "quicksilver-vm-exit="
_INIT: Final = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in {modules}; do insmod /$module.ko || echo "$module: not loaded"; done
options=trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro
mount -t 9p -o $options root /root && mount -t tmpfs tmp /root/tmp && mount -t tmpfs run /root/run
mkdir -p /root/{checkout} && mount -t 9p -o $options checkout /root/{checkout}
for kernel in proc sys dev; do mount --move /$kernel /root/$kernel; done
mkdir -p /root/dev/shm && mount -t tmpfs shm /root/dev/shm
mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
ip link set lo up
chroot /root /bin/sh -c {command} < /root/dev/null
echo "{mark}$?"
poweroff -f
"""


class MachineError(Exception):
    """The machine did not run the command to its end; carries the console's output."""


@dataclass(frozen=True, slots=True)
class VmEnded:
    """How the command ended: its exit code, and all it wrote."""

    code: int
    output: str


def why_not() -> str:
    """Say why no machine can be booted here; "" when one can."""
    if os.uname().machine != "x86_64":
        return f"the virtual machine is for x86_64, not for {os.uname().machine}"
    for tool, package in ((QEMU, "qemu-system-x86"), ("busybox", "busybox-static")):
        if shutil.which(tool) is None:
            return f"{tool} is missing; install Debian's {package}"
    return ""


def run(kernel: Kernel, checkout: Path, command: str, scratch: Path, *, timeout_s: float) -> VmEnded:
    """Boot, run `command` with /bin/sh in `checkout`, power off. Raises MachineError when no exit code came."""
    initramfs = scratch / "initramfs"
    initramfs.write_bytes(pack(_files(kernel, checkout, command)))
    for accelerator in _accelerators():
        code, output = _boot(_argv(accelerator, kernel.image, initramfs, checkout), timeout_s)
        before, mark, after = output.rpartition(MARK)
        if mark:
            return VmEnded(int(after.split()[0]), before)
        if code == -signal.SIGKILL:
            raise MachineError(f"no exit code within {timeout_s} s:\n{output[-4000:]}")
    raise MachineError(f"QEMU ended with {code}:\n{output[-4000:]}")


def _boot(argv: list[str], timeout_s: float) -> tuple[int, str]:
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as qemu:
        watchdog = threading.Timer(timeout_s, qemu.kill)
        watchdog.start()
        try:
            output, _ = qemu.communicate()
        finally:
            watchdog.cancel()
            qemu.kill()
    return qemu.returncode, output.replace("\r", "")


def _files(kernel: Kernel, checkout: Path, command: str) -> dict[str, tuple[int, bytes]]:
    init = _INIT.format(
        modules=" ".join(module.stem for module in kernel.modules),
        checkout=shlex.quote(str(checkout).lstrip("/")),
        command=shlex.quote(f"cd {shlex.quote(str(checkout))} && {command}"),
        mark=MARK,
    )
    busybox = shutil.which("busybox")
    assert busybox is not None
    files = {"init": (0o755, init.encode()), "bin/busybox": (0o755, Path(busybox).read_bytes())}
    return files | {module.name: (0o644, module.read_bytes()) for module in kernel.modules}


def _argv(accelerator: str, image: Path, initramfs: Path, checkout: Path) -> list[str]:
    share = "local,security_model=none,readonly=on,multidevs=remap"
    return [
        QEMU,
        *("-accel", accelerator, "-cpu", "max,-arch-capabilities", "-smp", "2", "-m", "1024"),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"),
        *("-kernel", str(image), "-initrd", str(initramfs), "-append", "console=ttyS0 quiet panic=-1 psi=1"),
        *("-virtfs", f"{share},path=/,mount_tag=root,id=root"),
        *("-virtfs", f"{share},path={checkout},mount_tag=checkout,id=checkout"),
    ]


def _accelerators() -> tuple[str, ...]:
    """Return kvm first where the processor helps; /dev/kvm alone may be a KVM that boots only kernels made for it."""
    flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    usable = flags & {"vmx", "svm"} and os.access("/dev/kvm", os.R_OK | os.W_OK)
    return ("kvm", "tcg") if usable else ("tcg",)
