"""A secure cluster under `policies: {}`: a job is right, its tasks held, no secret is written, no forger let in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from hadoop_rpc.errors import HadoopRpcError
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.yarn_client import AmClient
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.mapreduce import count_words, put_text, read_counts, start_wordcount
from quicksilver_lab.workloads.records import RecordsWatch
from quicksilver_lab.workloads.run_records import held_starts, measure
from tests.promise.conftest import daemons, promise_spec, running_cluster
from tests.promise.helpers import TEXT, WITHIN_S, options, taken_back, until
from tests.real.holder import Holder, holder, written

pytestmark = [pytest.mark.promise, pytest.mark.hadoop, pytest.mark.kerberos]
MAPS: Final = 2
TASKS: Final = MAPS + 1


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDaemons]:
    spec = promise_spec(tmp_path_factory.mktemp("secure"), nodes=1, kerberos=True, spnego=True)
    with running_cluster(spec) as cluster:
        secure = daemons(cluster, {}, "secure")
        secure.supervised = False
        secure.start()
        try:
            yield secure
        finally:
            secure.stop()


def test_a_job_is_right_and_its_tasks_are_held(stack: LocalDaemons) -> None:
    cluster = stack.cluster
    put_text(cluster, "/secure/input", TEXT)
    with RecordsWatch(cluster) as watch:
        job = start_wordcount(cluster, "/secure/input", "/secure/counted", maps=MAPS, options=options()).wait(WITHIN_S)
    assert read_counts(cluster, "/secure/counted") == count_words(TEXT)
    back = taken_back(stack, watch.granted(), job.application_id)
    assert (job.failed_attempts, job.killed_attempts) == (0, back)
    way = measure(cluster, "quicksilver", job, watch, "")
    assert way.disagreeing == ()
    assert (way.rm_opportunistic, way.nm_opportunistic) == (TASKS + back, TASKS), way
    until("all held starts in the store", lambda: held_starts(stack, way).count >= TASKS, 30)
    assert held_starts(stack, way).confirmed == TASKS
    assert stack.get("/v1/health")["problems"] == []


def with_another_key(identifier: bytes) -> bytes:
    """Return an identifier of an AMRMToken that names another master key of the ResourceManager."""
    changed = y.AMRMTokenIdentifierProto.FromString(identifier)
    changed.keyId ^= 1
    return changed.SerializeToString()


def test_forgers_are_refused_and_no_secret_is_written(stack: LocalDaemons) -> None:
    cluster, secrets = stack.cluster, []

    async def refused(token: TokenProto) -> None:
        with pytest.raises((HadoopRpcError, OSError)) as caught:
            async with AmClient(*cluster.spec.scheduler, token) as forger:
                await forger.register()
        said.append(str(caught.value))

    async def forged(honest: Holder) -> None:
        other = TokenProto()
        other.CopyFrom(honest.token)
        other.password = bytes(byte ^ 1 for byte in other.password)
        await refused(other)
        other.CopyFrom(honest.token)
        other.identifier = with_another_key(other.identifier)
        await refused(other)

    async def talk() -> None:
        async with holder(cluster, "honest") as app:
            await forged(app)
            (container,) = await app.granted(1)
            async with app.node(container) as node:
                await node.start(container, "true")
            assert (await app.finished(container)).exit_status == 0
            secrets.extend(app.secrets())

    said: list[str] = []
    asyncio.run(talk())
    assert len(said) == 2 and "digest response" in said[0] and "Invalid AMRMToken" in said[1], said
    assert len(secrets) >= 3, "the tokens of the master, of the node and of the container"
    forms = {form for secret in secrets for form in written(secret)}
    looked_at = []
    for path in stack.folder.rglob("*"):
        if path.name.startswith("attempts-"):  # the last answers, which a resync repeats with their tokens
            assert path.stat().st_mode & 0o077 == 0, path
        elif path.is_file():
            looked_at.append(path.name)
            content = path.read_bytes()
            assert not [form for form in forms if form in content], path
    assert {"proxy.log", "proxy.db", "node1.log"} <= set(looked_at)
