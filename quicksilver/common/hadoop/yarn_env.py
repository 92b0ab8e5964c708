"""What yarn-env.sh gives daemons that share one yarn-site.xml: a system property, and the node's own name.

Hadoop's `Configuration` expands `${name}` from the JVM's system properties before it looks for a property of that name,
and `${env.NAME:-default}` from the environment. So one file can have values that differ by daemon or host.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

FILE: Final = "yarn-env.sh"
NODE: Final = "QUICKSILVER_NODE"
"""Environment variable with the node's own name, as `hostname -f` says it."""
_RM_OPTIONS: Final = re.compile(r"^\s*(?:export\s+)?YARN_RESOURCEMANAGER_OPTS=(.*)$", re.M)
_OPTION: Final = re.compile(r"-D(quicksilver\.[\w.-]+)=([^\s\"']+)")
_NODE: Final = re.compile(rf"^\s*export\s+{NODE}=", re.M)


def lines(rm_options: Mapping[str, str], *, node: bool) -> Sequence[str]:
    """Return lines of yarn-env.sh that set system properties of the ResourceManager, and the node's name."""
    exports = []
    if rm_options:
        words = " ".join(f"-D{name}={value}" for name, value in rm_options.items())
        exports.append(f'export YARN_RESOURCEMANAGER_OPTS="{words} ${{YARN_RESOURCEMANAGER_OPTS:-}}"')
    if node:
        exports.append(f'export {NODE}="${{{NODE}:-$(hostname -f)}}"')
    return exports


def rm_properties(directory: Path) -> dict[str, str]:
    """Return quicksilver's system properties of a ResourceManager that is started with this directory."""
    return rm_options(_text(directory))


def rm_options(text: str) -> dict[str, str]:
    """Return the same for the text of yarn-env.sh."""
    return {name: value for options in _RM_OPTIONS.findall(text) for name, value in _OPTION.findall(options)}


def with_node(directory: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment as the NodeManager has it after yarn-env.sh was sourced: with this host's name."""
    if NODE in env or not _NODE.search(_text(directory)):
        return dict(env)
    name = socket.gethostname()
    with contextlib.suppress(socket.gaierror):  # `hostname -f` fails then, too
        name = socket.getaddrinfo(name, None, flags=socket.AI_CANONNAME)[0][3] or name
    return {**env, NODE: name}


def _text(directory: Path) -> str:
    file = directory / FILE
    return file.read_text(errors="replace") if file.is_file() else ""
