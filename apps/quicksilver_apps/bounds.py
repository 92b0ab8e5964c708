"""Every bound of the app server and of the masters that it starts; the table of docs/app-server.md is made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from quicksilver.bounds import Bound, setting, size, write_tables
from quicksilver.common.http.rest_client import SESSION_ANSWER_BYTES, SESSION_READ_S
from quicksilver_apps.client.master_answers import (
    MASTER_ANSWER_BYTES,
    MASTER_EVENTS,
    MASTER_INSTANCES,
    MASTER_PORTS,
    MASTER_SERVICES,
)
from quicksilver_apps.client.master_api import MASTER_CALL_S, MASTER_LONG_POLL_S
from quicksilver_apps.client.master_places import PLACES
from quicksilver_apps.description.document import MAX_BYTES, MAX_CHARACTERS, MAX_DEPTH, MAX_VALUES
from quicksilver_apps.description.templates import MAX_VALUE_CHARACTERS
from quicksilver_apps.master.http_server import BODY_BYTES, CONNECTIONS
from quicksilver_apps.master.http_server import HEAD_BYTES as MASTER_HEAD_BYTES


def app_server_bounds() -> Sequence[Bound]:
    """Return the bounds of the app server and of the masters that it starts."""
    own = f"{setting('app_server.event_clients')}, {setting('app_server.event_queue')}"
    description = (
        f"{size(MAX_BYTES)}, {MAX_VALUES} values, {MAX_DEPTH} levels, {MAX_CHARACTERS} characters with all aliases"
    )
    return (
        Bound("bodies of REST", f"four times {setting('app_server.max_description_kb')}", "413"),
        Bound("a description", description, "422 with the place"),
        Bound("the value of a parameter", f"{MAX_VALUE_CHARACTERS} characters", "422 with the place"),
        Bound("applications that wait", setting("app_server.max_waiting"), "429"),
        Bound("listeners to events; events that one has not read", own, "503; closed"),
        Bound("an answer with a log", setting("app_server.max_log_kb"), "its end alone"),
        Bound(
            "an answer of an application's master: bytes; services, instances, events, ports; a call",
            f"{size(MASTER_ANSWER_BYTES)}; {MASTER_SERVICES}, {MASTER_INSTANCES}, {MASTER_EVENTS}, {MASTER_PORTS}; "
            f"{MASTER_CALL_S:g} s, {MASTER_LONG_POLL_S:g} s where it waits for news",
            "refused; the application keeps its last state",
            "the log",
        ),
        Bound(
            "other answers to commands and the app server",
            f"{size(SESSION_ANSWER_BYTES)}, {SESSION_READ_S:g} s",
            "an error",
        ),
        Bound("nodes of masters that are remembered", f"{PLACES}", "the oldest is forgotten"),
        Bound("master: connections", f"{CONNECTIONS}", "closed at once"),
        Bound("master: head; body", f"{size(MASTER_HEAD_BYTES)}; {size(BODY_BYTES)}", "413"),
    )


PARTS: Final[Mapping[str, Sequence[Bound]]] = {"of the app server": app_server_bounds()}
COMMAND: Final = "python -m quicksilver_apps.bounds docs/app-server.md"

if __name__ == "__main__":
    write_tables(PARTS, COMMAND)
