"""Debian's kernel and its modules for the virtual machine, fetched with apt and never installed."""

import lzma
import re
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PACKAGE: Final = "linux-image-amd64"
"""Not linux-image-cloud-amd64, which has no 9p."""
WANTED: Final = ("virtio_pci", "9pnet_virtio", "9p")
_DEPENDS: Final = re.compile(rb"\0depends=([^\0]*)\0")


class KernelMissingError(Exception):
    """No kernel is available here; the text has the reason."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel image, and the modules that the machine loads, in order."""

    image: Path
    modules: tuple[Path, ...]


def find_kernel(cache: Path) -> Kernel:
    """Return the kernel in `cache`, fetched when it is not there yet. Raises KernelMissingError."""
    name = _newest()
    target = cache / name
    if not (target / "modules").exists():
        target.mkdir(parents=True, exist_ok=True)
        package = download(name, target)
        _unpack(package, target)
        package.unlink()
    names = (target / "modules").read_text(encoding="utf-8").split()
    return Kernel(target / "vmlinuz", tuple(target / f"{name}.ko" for name in names))


def _newest() -> str:
    for line in _run("apt-cache", "depends", PACKAGE).splitlines():
        if match := re.match(r"\s*Depends: (linux-image-\S+)", line):
            return match[1]
    raise KernelMissingError(f"apt knows no {PACKAGE}; run apt-get update on a Debian of architecture amd64")


def download(name: str, target: Path) -> Path:
    """Fetch a package into a folder with apt. Raises KernelMissingError."""
    _run("apt-get", "-o", "APT::Sandbox::User=root", "download", name, cwd=target)
    return next(target.glob("*.deb"))


def _run(*argv: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=300)
    except FileNotFoundError:
        raise KernelMissingError(f"{argv[0]} is missing, so that no kernel can be fetched") from None
    if done.returncode:
        raise KernelMissingError(f"{' '.join(argv)} failed: {done.stderr.strip()}")
    return done.stdout


def _unpack(package: Path, target: Path) -> None:
    """Take the image and all modules that `WANTED` needs out of the package; write their order to `modules`."""
    modules: dict[str, bytes] = {}
    with (
        subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as tar,
    ):
        for path, content in _files(tar):
            if path.name.startswith("vmlinuz"):
                (target / "vmlinuz").write_bytes(content)
            else:
                modules[_module(path)] = lzma.decompress(content) if path.suffix == ".xz" else content
    order: list[str] = []
    for name in WANTED:
        _collect(name, modules, order)
    for name in order:
        (target / f"{name}.ko").write_bytes(modules[name])
    (target / "modules").write_text("\n".join(order), encoding="utf-8")


def _files(tar: tarfile.TarFile) -> Iterator[tuple[Path, bytes]]:
    for member in tar:
        path = Path(member.name)
        module = {".ko", ".xz"} & set(path.suffixes) and {"9p", "virtio", "netfs", "fscache"} & set(path.parts)
        if member.isfile() and (path.name.startswith("vmlinuz") or module):
            content = tar.extractfile(member)
            assert content is not None
            yield path, content.read()


def _module(path: Path) -> str:
    return path.name.partition(".ko")[0].replace("-", "_")


def _collect(name: str, modules: dict[str, bytes], order: list[str]) -> None:
    """Append a module's needs and then itself; what the package lacks is built into the kernel."""
    if name in order or name not in modules:
        return
    depends = _DEPENDS.search(modules[name])
    for need in (depends[1].decode() if depends else "").split(","):
        _collect(need.replace("-", "_"), modules, order)
    order.append(name)
