"""The process of the application master: reads its files and its environment, and runs until the application ends."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hadoop_rpc.errors import HadoopRpcError
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.master.api import Api
from quicksilver_apps.master.http_server import HttpServer
from quicksilver_apps.master.launchers import Launchers
from quicksilver_apps.master.machine import spec
from quicksilver_apps.master.machine.events import Event
from quicksilver_apps.master.machine.machine import Machine
from quicksilver_apps.master.shell import Shell
from quicksilver_apps.master.yarn.launch_context import Contexts, LaunchResources
from quicksilver_apps.master.yarn.session import AttemptGoneError, RmSession
from quicksilver_apps.yarn.token_storage import AM_RM_TOKEN, read_tokens, write_tokens

LOG: Final = logging.getLogger("quicksilver.master")
BEAT_VARIABLE: Final = "QUICKSILVER_APP_HEARTBEAT_S"
BEAT_S: Final = 1.0
TERMINATED_STATUS: Final = 128 + signal.SIGTERM


class StartError(Exception):
    """The master cannot start with what it was given."""


@dataclass(frozen=True, slots=True)
class MasterSurroundings:
    """What the container gives the master."""

    container_id: str
    application_id: str
    host: str
    user: str
    hadoop_user: str
    key: str
    token: TokenProto
    delegation: bytes
    """Delegation tokens, as instances get them; b"": there are none."""
    beat_s: float

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> MasterSurroundings:
        """Return what the environment says. Raises StartError."""
        try:
            container_id = environment["CONTAINER_ID"]
            host = environment["NM_HOST"]
            key = environment["QUICKSILVER_APP_KEY"]
            path = Path(environment["HADOOP_TOKEN_FILE_LOCATION"])
        except KeyError as error:
            raise StartError(f"{error.args[0]} is not set; YARN starts this program, not a person.") from error
        try:
            tokens = read_tokens(path.read_bytes())
            beat_s = float(environment.get(BEAT_VARIABLE, BEAT_S))
        except (OSError, ValueError) as error:
            raise StartError(f"{path}: {error}") from error
        mine = [token for token in tokens.values() if token.kind == AM_RM_TOKEN]
        if not mine:
            raise StartError(f"{path} has no token of the kind {AM_RM_TOKEN}.")
        others = {alias: token for alias, token in tokens.items() if token.kind != AM_RM_TOKEN}
        return cls(
            container_id,
            application_id_of(container_id),
            host,
            environment.get("USER", ""),
            environment.get("HADOOP_USER_NAME", ""),
            key,
            mine[0],
            write_tokens(others) if others else b"",
            beat_s,
        )


def application_id_of(container_id: str) -> str:
    """Return the id of the application of a container. Raises StartError when the id is none."""
    parts = container_id.split("_")
    if parts[0] != "container" or len(parts) not in (5, 6):
        raise StartError(f"CONTAINER_ID={container_id} is no id of a container.")
    return f"application_{parts[-4]}_{parts[-3]}"


def main() -> int:
    """Run the master in the working directory of its container; return the exit status."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    try:
        surroundings = MasterSurroundings.read(os.environ)
        application = spec.read(_json("application.json"))
        resources = LaunchResources.read(_json("resources.json"))
        return asyncio.run(_run(surroundings, application, resources))
    except (StartError, spec.SpecError) as error:
        LOG.error("%s", error)
        return 2
    except AttemptGoneError as error:
        LOG.error("this attempt is over: %s", error)
        return 1
    except (OSError, HadoopRpcError) as error:
        LOG.error("the application master gives up: %s: %s", type(error).__name__, error)
        return 1


def _json(name: str) -> Any:
    try:
        return json.loads(Path(name).read_bytes())
    except (OSError, ValueError) as error:
        raise StartError(f"{name}: {error}") from error


async def _run(
    surroundings: MasterSurroundings, application: spec.FilledApplication, resources: LaunchResources
) -> int:
    machine = Machine(application, time.time())
    key, application_id = surroundings.key, surroundings.application_id

    def tell(event: Event) -> None:
        shell.tell(event)

    api = Api(machine.app, application_id, surroundings.user, key, tell)
    server = HttpServer(api.handle, lambda error: LOG.error("a request failed", exc_info=error))
    url = f"http://{surroundings.host}:{await server.start()}"
    contexts = Contexts(
        application, application_id, resources, key, url, surroundings.delegation, surroundings.hadoop_user
    )
    session = RmSession(resources.schedulers, surroundings.token)
    shell = Shell(machine, session, contexts, Launchers(key, url), surroundings.beat_s)
    shell.changed = api.notify
    LOG.info("%s of %s serves %s", application.name, application_id, url)
    work = asyncio.create_task(shell.run(surroundings.host, url))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    try:
        end = await work
    except asyncio.CancelledError:
        LOG.warning("terminated; the containers go on, and the next attempt takes over if there is one")
        return TERMINATED_STATUS
    finally:
        await server.close()
    LOG.info("the application ended as %s: %s", end.status, end.diagnostics)
    return 0
