"""A thread on a host, and its way back."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from quicksilver_lab.cluster.errors import DaemonFailedError
from quicksilver_lab.cluster.hosts.namespaces import inside, run_inside, start_host, thread_inside

pytestmark = [pytest.mark.netns, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


def test_a_thread_comes_back_though_one_that_it_started_lives(tmp_path: Path) -> None:
    hosts_file = tmp_path / "hosts"
    hosts_file.write_text("127.0.0.1 localhost\n127.0.0.9 elsewhere\n")
    name, folder, over = socket.gethostname(), Path.cwd(), threading.Event()
    process = start_host("there", hosts_file)
    helper = threading.Thread(target=over.wait)
    try:
        with thread_inside(process.pid):
            helper.start()
            assert (socket.gethostname(), Path.cwd()) == ("there", folder)
            assert socket.gethostbyname("elsewhere") == "127.0.0.9"
        assert (socket.gethostname(), Path.cwd()) == (name, folder)
        with pytest.raises(DaemonFailedError, match="false: exit code 1"):
            run_inside(process.pid, ["false"])
        assert run_inside(process.pid, ["cat"], "text") == "text"
        assert inside(7, ["true"], folder)[-3:] == [f"--wdns={folder}", "--", "true"]
    finally:
        over.set()
        helper.join()
        process.communicate(timeout=10)
