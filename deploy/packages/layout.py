"""The files of an installation: the folder of the archive, and the tree of a Debian or Red Hat package around it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

from deploy.packages.wheels import PYTHONS, BuildError

HERE: Final = Path(__file__).parent
PREFIX: Final = Path("opt/quicksilver")
PROGRAMS: Final = ("bin/quicksilver", "libexec/compile", "libexec/hadoop-host", "libexec/setup-archive")
_UNITS: Final = (
    "quicksilver-app-server.service",
    "quicksilver-proxy.service",
    "quicksilver-sidecar.service",
    "quicksilver-tracker.service",
)


def fill(file: Path, values: dict[str, str]) -> str:
    """Return a file's text with `@NAME@` replaced by values. Raises BuildError for a name without one."""
    text = file.read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    left = re.findall(r"@[A-Z_]+@", text)
    if left:
        raise BuildError(f"{file}: no value for {', '.join(left)}")
    return text


def common(prefix: Path, root: Path) -> None:
    """Put all but the library into the folder of an installation, whose `lib` is there already.

    root: the checkout.
    """
    tree = HERE / "tree"
    _copy(tree / "quicksilver", prefix / "bin" / "quicksilver")
    found = fill(tree / "find-python", {"PYTHONS": " ".join(reversed(PYTHONS))})
    _write(found, prefix / "libexec" / "find-python")
    for name in ("compile", "hadoop-host", "setup-archive", "setup-host", "stop-host"):
        _copy(tree / name, prefix / "libexec" / name)
    _copy(tree / "plugins.md", prefix / "plugins" / "README.md")
    _copy(root / "LICENSE", prefix / "LICENSE")
    _copy(tree / "quicksilver.yaml", prefix / "share" / "quicksilver.yaml")
    _copy(tree / "logrotate", prefix / "share" / "logrotate")
    for unit in _UNITS:
        _copy(root / "hadoop-conf" / "systemd" / unit, prefix / "share" / "systemd" / unit)
    for page in (*sorted((root / "docs").glob("*.md")), root / "CHANGELOG.md"):
        _copy(page, prefix / "share" / "doc" / page.name)


def system(tree: Path, units: Path) -> None:
    """Put what a package has outside of /opt into its tree. units: where this distribution keeps units."""
    prefix = tree / PREFIX
    for unit in _UNITS:
        _copy(prefix / "share" / "systemd" / unit, tree / units / unit)
    _copy(prefix / "share" / "quicksilver.yaml", tree / "etc/quicksilver/quicksilver.yaml")
    _copy(prefix / "share" / "logrotate", tree / "etc/logrotate.d/quicksilver")
    _copy(HERE / "debian" / "copyright", tree / "usr/share/doc/yarn-quicksilver/copyright")
    link = tree / "usr/bin/quicksilver"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("/opt/quicksilver/bin/quicksilver")


def normalize(tree: Path, programs: tuple[str, ...], epoch_s: int) -> None:
    """Give all files the modes and times that they have in every build."""
    for folder, folders, files in os.walk(tree):
        for name in (*folders, *files):
            path = Path(folder, name)
            if not path.is_symlink():
                is_program = any(path.match(program) for program in programs)
                path.chmod(0o755 if path.is_dir() or is_program else 0o644)
            os.utime(path, (epoch_s, epoch_s), follow_symlinks=False)
    tree.chmod(0o755)
    os.utime(tree, (epoch_s, epoch_s))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _write(text: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
