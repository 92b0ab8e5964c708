"""How a package or an archive starts the program: `python -I -S .../lib/quicksilver/process/launcher.py ARGUMENTS`.

Python sees the folder `lib` with all locked packages and the folder `plugins` with policies of third parties, and
neither PYTHONPATH nor packages of the host. `-m MODULE` runs another module in the same way.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

PLUGINS: Final = "QUICKSILVER_PLUGINS"
"""Environment variable: folders with packages of third parties, separated by colons; default: PREFIX/plugins."""


def folders(library: Path, plugins: str | None) -> list[str]:
    """Return what sys.path gets: our packages first, so that no plugin replaces one of them."""
    named = plugins.split(os.pathsep) if plugins else [str(library.parent / "plugins")]
    return [str(library), *(os.path.realpath(name) for name in named if name)]


def incomplete(error: ModuleNotFoundError) -> str:
    """Return what to do about a missing module of Python itself or of the packages."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if (error.name or "").split(".")[0].lstrip("_") in {name.lstrip("_") for name in sys.stdlib_module_names}:
        remedy = f"install all of Python {version} (Debian: python{version}, Red Hat: python{version}-libs)"
        return f"{sys.executable}: has no module {error.name} of Python's own library; {remedy}"
    built = "this package has compiled modules for other versions of Python or another processor"
    return f"{sys.executable}: {error}; {built}: set QUICKSILVER_PYTHON to one of them, or install it again"


def run(arguments: Sequence[str]) -> None:
    """Run the program, or after `-m` a module."""
    if arguments[:1] == ["-m"] and len(arguments) > 1:
        import runpy

        sys.argv = list(arguments[1:])
        module = "quicksilver.__main__" if arguments[1] == "quicksilver" else arguments[1]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    from quicksilver.process.start import start

    start(arguments)


if __name__ == "__main__":
    sys.path += folders(Path(__file__).resolve().parents[2], os.environ.get(PLUGINS))
    try:
        run(sys.argv[1:])
    except ModuleNotFoundError as missing:
        raise SystemExit(f"quicksilver: error: {incomplete(missing)}") from None
