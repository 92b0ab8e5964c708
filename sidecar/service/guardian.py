"""Restores containers' full limits when the sidecar is gone: `python -m sidecar.service.guardian LABEL`.

The sidecar starts it with a pipe as its stdin (`sidecar.service.guardian_client`), and writes JSON lines: {"put": ID,
"undo": ..} before a container is shrunk for the first time, {"del": ID} when it was detached, {"clean": [GROUP, ..]}
for its parent groups. The end of the pipe means that the sidecar is gone, however it died: the guardian executes every
undo that is left, and ends. It imports little, because it runs on every node (dataclasses bring `inspect`, 1.2 MB).
LABEL names the parent group, by which the next sidecar finds it.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from sidecar.resizer.cgroup.v1_restore import remove_group

DEAF_TO: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
Undoing = Callable[[Mapping[str, object]], None]
_MODULES: Final = {
    "cgroup1": "sidecar.resizer.cgroup.v1_restore",
    "signals": "sidecar.resizer.signals",
    "cgroup2": "sidecar.resizer.cgroup.v2_restore",
    "docker": "sidecar.resizer.docker.resizer",
    "fence": "sidecar.memory.cgroup_fence",
}
"""Module of `undo_<resizer>`, which raises OSError or QuicksilverError for limits that it cannot restore."""


class Records:
    """The undos that are left."""

    def __init__(self, label: str = "") -> None:
        """Prepare. label: the parent group, as the last folders of those in `clean`."""
        self._label = Path(label.strip("/"))
        self.undo: dict[str, Mapping[str, object]] = {}
        self.clean: list[Path] = []

    def take(self, line: str) -> None:
        """Handle a line of the sidecar; a line that cannot be read is logged and left out."""
        try:
            message = json.loads(line)
            if "put" in message:
                undoing(str(message["undo"]["resizer"]))  # its module is loaded while all is well
                self.undo[str(message["put"])] = message["undo"]
            elif "del" in message:
                self.undo.pop(str(message["del"]), None)
            else:
                self.clean = [Path(group) for group in message["clean"]]
        except (ValueError, KeyError, TypeError, ImportError, AttributeError) as error:
            log_line(f"line not understood ({error!r}): {line.strip()[:200]}")

    def finish(self) -> int:
        """Undo everything, and continue after a failure. Returns the number of failures."""
        failed = 0
        for container_id, record in self.undo.items():
            try:
                undoing(str(record["resizer"]))(record)
            except Exception as error:  # noqa: BLE001  whatever it is, the others must get their limits back
                failed += 1
                log_line(f"{container_id}: its limits are not given back: {error}")
            else:
                log_line(f"{container_id}: full limits again, the sidecar is gone")
        for group in self.clean:
            failed += self._sweep(group)
            try:
                group.rmdir()
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.EBUSY, errno.ENOTEMPTY):
                    log_line(f"{group}: not removed: {error}")
        return failed

    def _sweep(self, parent: Path) -> int:
        """Empty and remove groups of containers that were being attached: the sidecar had not sent them yet.

        Nothing limits them; their processes go to where the parent group is. Returns how many failed.
        """
        levels, failed = len(self._label.parts), 0
        if not levels or parent.parts[-levels:] != self._label.parts or not parent.is_dir():
            return 0
        for group in sorted(parent.glob("container_*")):
            try:
                remove_group(group, parent.parents[levels - 1], group.name)
            except Exception as error:  # noqa: BLE001  as above
                failed += 1
                log_line(f"{group}: not removed: {error}")
        return failed


def undoing(resizer: str) -> Undoing:
    """Return the function that undoes the changes of a resizer. Raises ImportError, AttributeError or KeyError."""
    undo: Undoing = getattr(importlib.import_module(_MODULES[resizer]), f"undo_{resizer}")
    return undo


def log_line(text: str) -> None:
    """Write a line to stderr, unless its reader is gone."""
    try:
        print(f"sidecar.service.guardian: {text}", file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123  or the exit would fail on what is buffered


def main() -> int:
    """Read stdin to its end, then undo. Returns 1 when something could not be undone."""
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, DEAF_TO)  # whoever started it has blocked them, until here
    try:
        Path("/proc/self/oom_score_adj").write_text("-900")
    except OSError as error:
        log_line(f"not spared when memory is short: {error}")
    records = Records(sys.argv[1] if len(sys.argv) > 1 else "")
    for line in sys.stdin:
        records.take(line)
    return 1 if records.finish() else 0


if __name__ == "__main__":
    sys.exit(main())
