"""An archive, a Debian package and a Red Hat package of one tree, the same bytes in every build."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from deploy.packages import layout
from deploy.packages.wheels import PYTHONS, run

_DEBIAN: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_SCRIPTS: Final = ("postinst", "prerm", "postrm")


def archive(prefix: Path, version: str, architecture: str, out: Path, epoch_s: int) -> Path:
    """Write `yarn-quicksilver-VERSION-linux-ARCH.tar.gz` of an installation's folder; return its path."""
    name = f"yarn-quicksilver-{version}"
    target = out / f"{name}-linux-{architecture}.tar.gz"
    order = ("--sort=name", "--format=gnu", "--owner=0", "--group=0", "--numeric-owner", f"--mtime=@{epoch_s}")
    where = ("--directory", str(prefix), f"--transform=flags=r;s,^[.],{name},", ".")
    run(["tar", *order, "--use-compress-program=gzip -6 -n", "--create", "--file", str(target), *where])
    return target


def debian(tree: Path, version: str, architecture: str, out: Path, epoch_s: int) -> Path:
    """Write `yarn-quicksilver_VERSION_ARCH.deb`; return its path. The tree gets a folder DEBIAN."""
    control = tree / "DEBIAN"
    control.mkdir()
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    alternatives = " | ".join(f"python{python}" for python in reversed(PYTHONS))
    values = _values(version) | {
        "ARCH": _DEBIAN[architecture],
        "SIZE_KB": str(size // 1024),
        "ALTERNATIVES": alternatives,
    }
    (control / "control").write_text(layout.fill(layout.HERE / "debian" / "control", values))
    for name in (*_SCRIPTS, "conffiles"):
        shutil.copyfile(layout.HERE / "debian" / name, control / name)
    layout.normalize(tree, (*layout.PROGRAMS, *(f"DEBIAN/{name}" for name in _SCRIPTS)), epoch_s)
    target = out / f"yarn-quicksilver_{version}_{_DEBIAN[architecture]}.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Zzstd", "-z10", "--build", str(tree), str(target)]
    run(command, SOURCE_DATE_EPOCH=str(epoch_s))
    shutil.rmtree(control)
    return target


def redhat(tree: Path, version: str, architecture: str, out: Path, epoch_s: int, work: Path) -> Path:
    """Write `yarn-quicksilver-VERSION-1.ARCH.rpm`; return its path."""
    layout.normalize(tree, layout.PROGRAMS, epoch_s)
    alternatives = " or ".join(f"python{name}" for python in reversed(PYTHONS) for name in (python, _joined(python)))
    values = _values(version) | {"TREE": str(tree), "ALTERNATIVES": alternatives}
    spec = work / "yarn-quicksilver.spec"
    spec.write_text(layout.fill(layout.HERE / "redhat" / "quicksilver.spec", values))
    top = work / "rpmbuild"
    command = ["rpmbuild", "-bb", "--quiet", "--target", f"{architecture}-linux", "--define", f"_topdir {top}"]
    run([*command, "--define", f"_tmppath {work}", str(spec)], SOURCE_DATE_EPOCH=str(epoch_s))
    (built,) = top.glob("RPMS/*/*.rpm")
    return Path(shutil.move(built, out / f"yarn-quicksilver-{version}-1.{architecture}.rpm"))


def _values(version: str) -> dict[str, str]:
    beyond = f"3.{int(PYTHONS[-1].removeprefix('3.')) + 1}"
    return {"VERSION": version, "OLDEST": PYTHONS[0], "BEYOND": beyond}


def _joined(python: str) -> str:
    return python.replace(".", "")
