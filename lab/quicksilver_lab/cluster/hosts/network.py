"""The network of a cluster of hosts: made, and held until its process is asked to end.

`python -m quicksilver_lab.cluster.hosts.network FOLDER` reads FOLDER/network.json and writes FOLDER/hosts.json, the pid
of each host, when everything is there.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Final

from quicksilver_lab.cluster.hosts.namespaces import run_inside, start_host, thread_in_network
from quicksilver_lab.cluster.hosts.network_spec import NetworkSpec, RackHost
from quicksilver_lab.cluster.hosts.slow_link import SlowLink

SPEC_FILE: Final = "network.json"
READY_FILE: Final = "hosts.json"
HOSTS_FILE: Final = "hosts"
WAN: Final = "wan"
"""The device of a rack through which all packets to other racks go; it can be taken down."""
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_END_S: Final = 10.0


def rack_host(rack: int) -> str:
    """Return the name of the namespace that is a rack's switch and router."""
    return f"rack{rack}"


class Network:
    """All hosts and switches; ends them when it is closed."""

    def __init__(self, spec: NetworkSpec, folder: Path) -> None:
        """`folder`: has the file of host names."""
        self.pids: dict[str, int] = {}
        """By host, switches among them."""
        self._spec, self._hosts_file = spec, folder / HOSTS_FILE
        self._processes: list[subprocess.Popen[str]] = []

    def start(self) -> dict[int, int]:
        """Make all hosts; return the file descriptor of each rack's device to the others."""
        self._hosts_file.write_text(self._spec.hosts_file())
        devices: dict[int, int] = {}
        for rack in range(1, self._spec.racks + 1):
            self._host(rack_host(rack))
            devices[rack] = self._switch(rack)
        for host in self._spec.hosts.values():
            self._host(host.name)
            self._connect(host)
        return devices

    def close(self) -> None:
        """End the hosts' processes; their namespaces go when nothing else runs in them."""
        for process in self._processes:
            process.communicate(timeout=_END_S)
        self._processes.clear()

    def _host(self, name: str) -> None:
        process = start_host(name, self._hosts_file)
        self._processes.append(process)
        self.pids[name] = process.pid

    def _switch(self, rack: int) -> int:
        pid = self.pids[rack_host(rack)]
        with thread_in_network(pid):
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", WAN.encode(), _IFF_TUN | _IFF_NO_PI))
        lines = [f"link set {WAN} up"]
        for bridge, net in (("first", 77), ("second", 78)):
            lines += [f"link add {bridge} type bridge", f"address add 10.{net}.{rack}.1/24 dev {bridge}"]
            lines += [f"link set {bridge} up", f"route add 10.{net}.0.0/16 dev {WAN}"]
        run_inside(pid, ["ip", "-batch", "-"], "\n".join(lines) + "\n")
        run_inside(pid, ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
        return device

    def _connect(self, host: RackHost) -> None:
        pid, switch = self.pids[host.name], self.pids[rack_host(host.rack)]
        interfaces = (("eth0", "first", f"{host.name}.0", host.address), ("eth1", "second", f"{host.name}.1", ""))
        for name, bridge, port, _ in interfaces:
            run_inside(switch, ["ip", "link", "add", port, "type", "veth", "peer", "name", name, "netns", str(pid)])
            run_inside(switch, ["ip", "link", "set", port, "master", bridge, "up"])
        lines = [
            f"address add {host.address}/24 dev eth0",
            f"address add {host.second_address}/24 dev eth1",
            "link set eth0 up",
            "link set eth1 up",
            f"route add 10.77.0.0/16 via 10.77.{host.rack}.1",
            f"route add 10.78.0.0/16 via 10.78.{host.rack}.1",
        ]
        run_inside(pid, ["ip", "-batch", "-"], "\n".join(lines) + "\n")


@contextmanager
def _stop_signal() -> Iterator[int]:
    """Return a file descriptor that can be read once SIGTERM or SIGINT came."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(writing)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


def main(folder: Path) -> None:
    """Hold a network until SIGTERM."""
    spec = NetworkSpec.model_validate_json((folder / SPEC_FILE).read_bytes())
    network = Network(spec, folder)
    with ExitStack() as stack:
        stop = stack.enter_context(_stop_signal())
        stack.callback(network.close)
        devices = network.start()
        link = SlowLink(devices, spec.delay_ms / 1000, spec.loss_ratio, Random(1))
        ready = folder / f"{READY_FILE}.new"
        ready.write_text(json.dumps({"pid": os.getpid(), "hosts": network.pids}))
        ready.replace(folder / READY_FILE)
        stack.callback((folder / READY_FILE).unlink)
        link.run(stop)
        print(f"packets between racks: {link.delivered} delivered, {link.lost} lost", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
