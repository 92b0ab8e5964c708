"""The rule of nftables: what is told to nft; what a kernel makes of it, in a network namespace of the test's own."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from quicksilver.common.address import Address
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.conf import load_hadoop_conf
from sidecar.config import SidecarSettings
from sidecar.connections import nftables
from sidecar.connections.nftables import Redirect, RedirectError, run_nft
from tests.sidecar.test_config import OVERLAY, conf_dir

CLONE_NEWNET = 0x40000000
NODE = Address("127.0.0.11", 8041)


def needs_nft() -> None:
    if os.geteuid() != 0 or shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin") is None:
        pytest.skip("needs root and nft")


@pytest.fixture
def own_network() -> Iterator[None]:
    """Be in a network namespace of one's own, with loopback alone; what is set there ends with it."""
    needs_nft()
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET):
            pytest.skip(f"no network namespace: {os.strerror(ctypes.get_errno())}")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        try:
            run_nft("add table inet probe\ndelete table inet probe\n")
        except RedirectError as error:
            pytest.skip(str(error))
        yield
    finally:
        assert libc.setns(before, CLONE_NEWNET) == 0
        os.close(before)


def rules() -> str:
    return subprocess.run(["nft", "list", "ruleset"], check=True, capture_output=True, text=True).stdout


def answer(sock: socket.socket, address: Address) -> bytes:
    """Connect to an address; return what who takes it on `sock` says, b"" when nobody does."""
    sock.settimeout(5)
    try:
        with socket.create_connection(address, timeout=5):
            connection, _ = sock.accept()
            connection.close()
            return b"taken"
    except (ConnectionRefusedError, TimeoutError):
        return b""


def test_what_is_told_to_nft() -> None:
    redirect = Redirect(Address("node-1.example", 8041), 8392)
    assert redirect.table == "quicksilver_node_1_example_8041"
    text = redirect.rules(["10.0.0.7"])
    assert text.startswith(f"add table inet {redirect.table}\ndelete table inet {redirect.table}\n")
    for hook in ("output", "prerouting"):
        chain = f"chain {hook} {{ type nat hook {hook} priority -110; meta l4proto tcp ip daddr . tcp dport @live"
        assert f"{chain} redirect to :8392; }}" in text
    assert text.endswith(redirect.refreshing(["10.0.0.7"]))
    assert "{ 10.0.0.7 . 8041 }" in text
    assert "{ 10.0.0.7 . 8041, 10.8.0.7 . 8041 }" in redirect.refreshing(["10.0.0.7", "10.8.0.7"])


def test_nft_that_is_not_there_or_may_not_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(RedirectError, match=r"sidecar.intercept: nft is not installed; install nftables"):
        run_nft("")
    refusing = tmp_path / "nft"
    refusing.write_text("#!/bin/sh\necho 'Operation not permitted (you must be root)' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: str(refusing))
    with pytest.raises(RedirectError, match=r"nft refused: Operation not permitted .*; give it CAP_NET_ADMIN"):
        run_nft("")


def test_a_refresh_that_fails_is_told_once_and_set_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    broken = [True]

    def nft(script: str) -> None:
        said.append(script)
        if broken[0]:
            raise RedirectError("no", place="x", remedy="y")

    monkeypatch.setattr(nftables, "run_nft", nft)
    redirect = Redirect(NODE, 8392, everywhere=False)
    with capture_logs() as logs:
        redirect.refresh()
        redirect.refresh()
        assert "straight to the NodeManager" in redirect.why
        broken[0] = False
        redirect.refresh()
    assert [line["log_level"] for line in logs] == ["error", "info"]
    assert redirect.why == ""
    assert said[:2] == [redirect.refreshing([NODE.host]), redirect.rules([NODE.host])]


def test_a_node_that_is_its_own_upstream_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nftables, "run_nft", lambda _: None)
    redirect = Redirect(Address("127.0.0.1", 8041), 8392, everywhere=False)
    with pytest.raises(RedirectError, match=r"no address beside 127.0.0.1.*have the node's name stand for"):
        redirect.install()


def test_where_the_sidecar_stands_with_nftables(tmp_path: Path) -> None:
    conf = {**OVERLAY, "yarn.nodemanager.bind-host": "0.0.0.0"}
    place = SidecarSettings(intercept="nftables").place(load_hadoop_conf(conf_dir(tmp_path, conf)))
    assert (place.listen, place.public) == (Address("0.0.0.0", 8392), Address("node1", 8041))
    assert place.upstream.port == 8041
    assert place.web_listen is None
    assert (place.rest_url, place.node_id) == ("http://node1:8391", "node1:8041")
    there = SidecarSettings().place(load_hadoop_conf(conf_dir(tmp_path, OVERLAY)))
    assert place.group("q") == there.group("q")
    assert place.journal(tmp_path) == there.journal(tmp_path)
    with pytest.raises(SettingsError, match=r"bind-host.*it cannot be reached there; let it be 0.0.0.0"):
        SidecarSettings(intercept="nftables").place(load_hadoop_conf(conf_dir(tmp_path, OVERLAY)))


@pytest.mark.netns
def test_the_rule_sends_here_and_expires_by_itself(own_network: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nftables, "EXPIRES_S", 3)
    others = "table ip others { chain c { type nat hook output priority -100; tcp dport 9 redirect to :10; }; }\n"
    run_nft(others)
    before = rules()
    with (
        socket.create_server(("0.0.0.0", 8392)) as ours,
        socket.create_server(("0.0.0.0", NODE.port)) as theirs,
    ):
        redirect = Redirect(NODE, 8392)
        redirect.install()
        redirect.install()  # finds its own leftover
        assert rules().count("table inet quicksilver_127_0_0_11_8041") == 1
        assert answer(ours, NODE) == b"taken"
        assert answer(theirs, Address("127.0.0.1", NODE.port)) == b"taken", "the sidecar's own way is free"
        begun_s = time.monotonic()
        while time.monotonic() < begun_s + 5:
            redirect.refresh()
            assert answer(ours, NODE) == b"taken", "it is refreshed"
        while "expires" in rules():
            assert time.monotonic() < begun_s + 20
        assert time.monotonic() > begun_s + 7
        assert answer(theirs, NODE) == b"taken", "nobody refreshed: straight to the NodeManager"
        redirect.refresh()
        assert answer(ours, NODE) == b"taken"
        run_nft(f"delete table inet {redirect.table}\n")
        redirect.refresh()  # somebody had removed it
        assert redirect.why == ""
        assert answer(ours, NODE) == b"taken"
        redirect.remove()
        redirect.remove()
    assert rules() == before


@pytest.mark.netns
def test_all_interfaces_are_redirected(own_network: None) -> None:
    """The node's name stands for 127.0.1.1, as Debian has it; others come by one of two networks."""
    others = ["10.1.0.7", "10.2.0.7"]
    for number, address in enumerate(others):
        subprocess.run(["ip", "link", "add", f"card{number}", "type", "bridge"], check=True)
        subprocess.run(["ip", "address", "add", f"{address}/24", "dev", f"card{number}"], check=True)
        subprocess.run(["ip", "link", "set", f"card{number}", "up"], check=True)
    with (
        socket.create_server(("0.0.0.0", 8392)) as ours,
        socket.create_server(("0.0.0.0", NODE.port)) as theirs,
    ):
        redirect = Redirect(Address("127.0.1.1", NODE.port), 8392)
        redirect.install()
        for address in (*others, "127.0.1.1"):
            assert answer(ours, Address(address, NODE.port)) == b"taken", address
        assert answer(theirs, Address("127.0.0.1", NODE.port)) == b"taken", "the sidecar's own way is free"
        subprocess.run(["ip", "address", "add", "10.3.0.7/24", "dev", "card1"], check=True)
        redirect.refresh()
        assert answer(ours, Address("10.3.0.7", NODE.port)) == b"taken", "an address that came later"
        redirect.remove()


def test_it_is_kept_until_it_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nftables, "REFRESH_S", 0.01)
    redirect = Redirect(NODE, 8392)

    async def story() -> None:
        loop, refreshed = asyncio.get_running_loop(), asyncio.Semaphore(0)
        monkeypatch.setattr(redirect, "refresh", lambda: loop.call_soon_threadsafe(refreshed.release))
        job = asyncio.create_task(redirect.keep())
        for _ in range(3):
            await refreshed.acquire()
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job

    asyncio.run(story())
