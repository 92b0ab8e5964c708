"""Reports to the supervisor that this process does its work: systemd (WatchdogSec=), or `quicksilver supervise`.

sd_notify(3), WATCHDOG=1. A process that reported and then is silent for long is aborted, and started again. Python
writes its stack to the log then, which names what it hung in.
"""

from __future__ import annotations

import faulthandler
import os
import socket

from quicksilver.common.process import fdstore

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes 1 MB
    from typing import Final

SILENT_S: Final = 60.0
"""Time without a report after which a process is taken for hung, seconds (own); WatchdogSec of the units."""
_connected: socket.socket | None = None


def alive() -> bool:
    """Report it; returns whether a supervisor took the report. To be called each second or so, from the main work.

    It needs a descriptor for the first report alone: a process that has none left is not aborted for that.
    """
    global _connected
    if not os.environ.get("NOTIFY_SOCKET"):
        return False
    try:
        if _connected is None:
            faulthandler.enable()
            _connected = fdstore.connected()
            _connected.setblocking(False)
        _connected.send(b"WATCHDOG=1")
    except BlockingIOError:
        return False
    except OSError:  # its supervisor began anew; the next report finds it
        if _connected is not None:
            _connected.close()
        _connected = None
        return False
    return True
