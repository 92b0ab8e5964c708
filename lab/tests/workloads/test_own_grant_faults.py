"""The campaign with own grants: calls cut at each step, the search for master keys, and how the cluster is set up."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from hadoop_rpc.connection import AM_PROTOCOL, DISTRIBUTED_SCHEDULING_PROTOCOL, ClientConnection
from hadoop_rpc.protos.yarn_server_pb2 import (
    DistributedSchedulingAllocateRequestProto,
    MasterKeyProto,
    NodeHeartbeatRequestProto,
)
from quicksilver_lab.cluster.spec import HostPort
from quicksilver_lab.workloads.faults import checks, master_keys, plan
from quicksilver_lab.workloads.faults.__main__ import CampaignOptions, links, main, noticed, spec_of, tracker_of
from quicksilver_lab.workloads.faults.cutter import METHOD, CallCutter, CallStep, Passage
from quicksilver_lab.workloads.faults.inject import AM_PROXY, PROXY_RM
from quicksilver_lab.workloads.faults.master_keys import SeenMasterKeys, search, search_environments, spellings
from quicksilver_lab.workloads.faults.toxic import Between, Toxics
from rm_proxy.relay import minted_frames
from sidecar.tracker.relay import TRACKER_PROTOCOL

KEY = bytes.fromhex("00ff0a7b3e9fc1fb")
WORDS = b"an allocate call: " + METHOD + b" and its content"


def options(tmp_path: Path, own_grants: bool) -> CampaignOptions:
    return CampaignOptions(
        tmp_path, 18000, 3, 1.0, 1.0, 1, False, "las", "sqlite", ("mapreduce",), own_grants=own_grants
    )


# Cutting calls


def test_the_call_is_that_of_the_proxy() -> None:
    call = ClientConnection().call(
        minted_frames.METHOD, DISTRIBUTED_SCHEDULING_PROTOCOL, DistributedSchedulingAllocateRequestProto()
    )
    assert METHOD in call and METHOD not in ClientConnection().call("allocate", AM_PROTOCOL, b"")


def test_a_call_is_found_in_pieces_on_its_own_connection() -> None:
    cutter = CallCutter(CallStep.REQUEST)
    at = WORDS.index(METHOD) + 5
    assert cutter.up(1, WORDS[:at]) is cutter.up(2, WORDS[at:]) is Passage.PASS, "two halves of two connections"
    assert not cutter.done
    assert cutter.up(1, WORDS[at:]) is Passage.CUT and cutter.done
    assert cutter.up(1, WORDS) is cutter.down(1) is Passage.PASS, "it is spent"


@pytest.mark.parametrize(("step", "verdict"), [(CallStep.ANSWER, Passage.CUT), (CallStep.DELIVERY, Passage.HOLD_BELOW)])
def test_its_answer_is_the_next_that_comes_on_its_connection(step: CallStep, verdict: Passage) -> None:
    cutter = CallCutter(step)
    assert cutter.down(1) is cutter.up(1, WORDS) is cutter.down(2) is Passage.PASS
    cutter.closed(1)
    assert cutter.down(1) is cutter.up(3, WORDS) is Passage.PASS and not cutter.done
    assert cutter.down(3) is verdict and cutter.done


@pytest.fixture
def server() -> Iterator[tuple[HostPort, list[bytes]]]:
    """Something that answers each piece of data with `answer`, and what it got."""
    listening, got = socket.create_server(("127.0.0.1", 0)), []  # type: tuple[socket.socket, list[bytes]]

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(4096):
                    got.append(data)
                    connection.sendall(b"answer")
            except ConnectionError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,)).start()

    thread = threading.Thread(target=accept)
    thread.start()
    yield HostPort(*listening.getsockname()), got
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


def free() -> HostPort:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return HostPort(*listening.getsockname())


def outcome(connection: socket.socket, data: bytes) -> bytes:
    """Send data; return what comes back, b"" where the connection is cut."""
    try:
        connection.sendall(data)
        return connection.recv(4096)
    except ConnectionError:
        return b""


@pytest.mark.parametrize("step", list(CallStep))
def test_links_cut_a_call_at_each_step(step: CallStep, server: tuple[HostPort, list[bytes]]) -> None:
    target, got = server
    above, below = free(), free()
    between = {PROXY_RM: Between(above, target), AM_PROXY: Between(below, above)}
    with Toxics(between) as toxics, socket.create_connection(below, timeout=10) as connection:
        assert outcome(connection, b"empty") == b"answer"
        done: list[bool] = []
        waits = threading.Thread(target=lambda: done.append(toxics.cut_call(PROXY_RM, AM_PROXY, step, 10.0)))
        waits.start()
        while toxics._links[PROXY_RM].cutter is None:
            pass
        assert outcome(connection, WORDS) == b"", "the application master has no answer"
        waits.join()
        assert done == [True]
    assert (WORDS in got) == (step is not CallStep.REQUEST)


def test_without_such_a_call_there_is_no_fault(server: tuple[HostPort, list[bytes]]) -> None:
    with Toxics({PROXY_RM: Between(free(), server[0])}) as toxics:
        assert not toxics.cut_call(PROXY_RM, AM_PROXY, CallStep.ANSWER, 0.05)


def test_the_plan_has_the_faults_of_own_grants_beside_the_others() -> None:
    drawn = list(islice(plan.faults(3, ["node1"], ["link"], 1.0, {**plan.KINDS, **plan.OWN_GRANTS}), 600))
    assert {fault.kind for fault in drawn} == {*plan.KINDS, *plan.OWN_GRANTS}
    assert {fault.target for fault in drawn if fault.kind == plan.KILL_RELAY} == {"node1"}
    assert not plan.OWN_GRANTS.keys() & plan.KINDS.keys()


# The search for master keys


def heartbeat(key: bytes, key_id: int) -> bytes:
    own = MasterKeyProto(key_id=key_id, bytes=key)
    body = NodeHeartbeatRequestProto(last_known_container_token_master_key=own, last_known_nm_token_master_key=own)
    body.node_status.node_id.host = "node"
    return ClientConnection().call("nodeHeartbeat", TRACKER_PROTOCOL, body)


def test_keys_are_read_from_heartbeats_and_broken_connections_are_counted() -> None:
    seen = SeenMasterKeys()
    client, read = ClientConnection(), seen.reader()
    opening = client.preamble() + client.context(TRACKER_PROTOCOL)
    data = opening + heartbeat(KEY, 7) + heartbeat(b"12345678", 8)
    for at in range(0, len(data), 50):
        read(data[at : at + 50])
    assert seen.keys == {KEY: 7, b"12345678": 8} and not seen.unread
    nothing = SeenMasterKeys()
    broken = nothing.reader()
    broken(b"GET / HTTP/1.1")
    broken(b"more")
    assert nothing.unread == 1


@pytest.mark.parametrize("before", range(4))
def test_a_key_is_found_in_base64_of_more_than_itself(before: int) -> None:
    text = base64.b64encode(b"x" * before + KEY + b"some more")
    assert any(pattern in text for pattern in spellings(KEY))
    safe = base64.urlsafe_b64encode(b"x" * before + KEY + b"some more")
    assert any(pattern in safe for pattern in spellings(KEY))
    assert not any(pattern in base64.b64encode(b"x" * before + b"\x01" + KEY[1:]) for pattern in spellings(KEY))
    assert min(map(len, spellings(KEY))) >= 8


def test_each_file_with_a_key_is_named(tmp_path: Path) -> None:
    for name, data in {
        "proxy.log": b"a line\nsecret " + KEY.hex().encode(),
        "quicksilver/proxy.db": bytes(5000) + KEY + bytes(100),
        "core.77": KEY,
        "journal": b'{"minted": "' + base64.b64encode(b"\x12\x08" + KEY) + b'"}',
        "upper": KEY.hex().upper().encode(),
        "node1-recovery/CurrentMasterKey": KEY,
        "empty": b"",
        "other": bytes(range(256)) * 10 + KEY[:7],
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "link").symlink_to(tmp_path / "core.77")
    hits = list(search([tmp_path, tmp_path / "core.77"], {KEY: 7}, [tmp_path / "node1-recovery"]))
    assert sorted(hit.partition(": ")[0].removeprefix(f"{tmp_path}/") for hit in hits) == [
        "core.77",
        "core.77",
        "journal",
        "proxy.log",
        "quicksilver/proxy.db",
        "upper",
    ]
    assert f"{tmp_path / 'proxy.log'}: master key 7 as hex at byte 14" in hits
    assert not list(search([tmp_path], {}))


def test_a_key_across_blocks_is_found_at_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master_keys, "_BLOCK_BYTES", 64)
    for at in range(40, 140):
        (tmp_path / "log").write_bytes(b"x" * at + KEY.hex().encode() + b"x" * (200 - at))
        assert list(search([tmp_path], {KEY: 7})) == [f"{tmp_path / 'log'}: master key 7 as hex at byte {at}"]


def test_a_process_with_a_key_in_its_environment_is_named() -> None:
    env = {**os.environ, "QUICKSILVER_KEY": base64.b64encode(KEY).decode()}
    command = [sys.executable, "-c", "print(1, flush=True); input()"]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        processes = [psutil.Process(process.pid), psutil.Process()]
        assert set(search_environments(processes, {KEY: 7})) == {
            f"environment of process {process.pid}: master key 7 as base64"
        }
        process.communicate(b"\n")
    assert not list(search_environments(processes, {KEY: 7})), "it ended"


# The campaign


def test_with_own_grants_keys_roll_and_each_tracker_relay_is_behind_a_link(tmp_path: Path) -> None:
    own, usual = (spec_of(options(tmp_path, on)) for on in (True, False))
    assert own.own_grants and not usual.own_grants
    rolling, expiry = (
        int(own.extra_site["yarn"][name])
        for name in (
            "yarn.resourcemanager.container-tokens.master-key-rolling-interval-secs",
            "yarn.nm.liveness-monitor.expiry-interval-ms",
        )
    )
    assert rolling == 70 and rolling * 1000 > 3 * expiry, "otherwise the ResourceManager does not start"
    assert usual.extra_site["yarn"]["yarn.nm.liveness-monitor.expiry-interval-ms"] == "60000"
    node = own.node_addresses[0]
    assert links(own, HostPort("127.0.0.1", 1))["NM-RM node1"].listen == tracker_of(own, node) != node.tracker
    assert links(usual, HostPort("127.0.0.1", 1))["NM-RM node1"].listen == node.tracker
    ports = [between.listen for between in links(own, HostPort("127.0.0.1", 1)).values()]
    ports += [node.tracker for node in own.node_addresses]
    assert len(set(ports)) == len(ports)


def test_own_grants_are_counted_by_their_numbers(tmp_path: Path) -> None:
    log = tmp_path / "node.log"
    line = "launchContainer: [bash, /l/n1/{0}/default_container_executor.sh]\n"
    numbers = ("container_e01_1_0001_01_000002", "container_1_0001_01_1073741900", "container_1_0001_01_1073741901")
    log.write_text("".join(line.format(number) for number in numbers))
    assert checks.own_grants([log]) == 2


def test_a_campaign_without_own_grants_or_keys_or_with_a_key_somewhere_fails() -> None:
    result = {"jobs": 3, "own_granted": 9, "keys_seen": 4, "keys_found": []}
    result |= {name: [] for name in ("jobs_failed", "mapreduce_failed_attempts", "launched_twice", "left", "not_back")}
    assert noticed(result) == {}
    assert noticed(result | {"keys_found": ["a.log: master key 1 as hex at byte 3"]}).keys() == {"keys_found"}
    assert noticed(result | {"own_granted": 0}).keys() == {"own_granted"}
    assert noticed(result | {"keys_seen": 0}).keys() == {"keys_seen"}
    assert noticed({"jobs": 0} | {k: v for k, v in result.items() if k.startswith(("jobs_f", "map", "la", "le", "no"))})


def test_plain_yarn_grants_nothing_of_its_own() -> None:
    result = CliRunner().invoke(main, ["--own-grants", "--plain"])
    assert result.exit_code == 2 and "does not go with --plain" in result.output
