"""The archive that YARN localises into the containers: the master, the launcher and all that they import, in one file.

It needs Python 3.11 or later on the nodes and nothing else: protobuf's pure-Python part is inside, because a C
extension cannot be loaded from a zip file.
"""

from __future__ import annotations

import importlib.metadata
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import hadoop_rpc
import quicksilver_apps

NAME: Final = "quicksilver-app.zip"
"""The name of the archive in the working directory of each container."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_PROTOBUF_EXCEPT: Final = ("google/protobuf/compiler/", "google/protobuf/testing/", "google/protobuf/pyext/")
_OURS: Final = ("master", "yarn")
_ENTRY: Final = '''"""Start the application master, or the launcher of an instance, from this archive."""
import os
import sys

if sys.version_info < (3, 11):
    sys.exit("quicksilver-app.zip needs Python 3.11 or later, and %s is %d.%d. Install one on the nodes and name it in "
             "the setting `python` of the submission." % ((sys.executable,) + sys.version_info[:2]))
sys.modules.pop("google", None)  # another protobuf's .pth file may have made it
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

from quicksilver_apps.master.__main__ import main

sys.exit(main())
'''


def build(path: Path) -> Path:
    """Write the archive to `path`, from the installed packages, and return `path`.

    Equal packages give equal bytes. Raises OSError when it cannot be written, ArchiveError when a part is missing.
    """
    entries = dict(_entries())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(entries):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, entries[name])
    return path


class ArchiveError(Exception):
    """The archive cannot be made of what is installed."""


def _entries() -> Iterator[tuple[str, bytes]]:
    yield "__main__.py", _ENTRY.encode()
    yield "google/__init__.py", b""
    yield from _protobuf()
    apps = Path(quicksilver_apps.__file__).parent
    yield "quicksilver_apps/__init__.py", (apps / "__init__.py").read_bytes()
    for module in sorted(path for package in _OURS for path in (apps / package).rglob("*.py")):
        if module.name != Path(__file__).name:
            yield f"quicksilver_apps/{module.relative_to(apps).as_posix()}", module.read_bytes()
    wire = Path(hadoop_rpc.__file__).parent
    for module in sorted(wire.rglob("*.py")):
        yield f"hadoop_rpc/{module.relative_to(wire).as_posix()}", module.read_bytes()


def _protobuf() -> Iterator[tuple[str, bytes]]:
    files = importlib.metadata.files("protobuf")
    if files is None:
        raise ArchiveError("protobuf is installed without a list of its files; install it anew with pip.")
    for file in files:
        name = PurePosixPath(file).as_posix()
        licence = name.endswith("/LICENSE")
        module = name.startswith("google/protobuf/") and name.endswith(".py") and not name.startswith(_PROTOBUF_EXCEPT)
        if module or licence:
            yield ("google/protobuf/LICENSE" if licence else name), file.read_binary()
