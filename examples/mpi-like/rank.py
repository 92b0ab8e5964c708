"""One rank of a rigid job: sums vectors over all ranks in a ring (all-reduce), standard library alone.

No rank begins before all are there: each one asks the application master for its peers until it knows them all, and the
first message goes once around the ring.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import struct
import sys
import time
import urllib.request
from array import array

PATIENCE_S = 300.0
"""How long a rank waits for the others."""
POLL_S = 0.2


def peers(ranks: int) -> list[tuple[str, int]]:
    """Return the addresses of all ranks, by number, once they are known."""
    url = f"{os.environ['QUICKSILVER_MASTER']}/v1/peers"
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with urllib.request.urlopen(url, timeout=10) as answer:
            listed = json.load(answer)["services"].get("rank", [])
        known = {each["index"]: (each["host"], each["ports"]["ring"]) for each in listed if each["ports"].get("ring")}
        if len(known) == ranks:
            return [known[rank] for rank in range(ranks)]
        time.sleep(POLL_S)
    sys.exit(f"the other ranks are not there after {PATIENCE_S:g} s")


def dial(address: tuple[str, int]) -> socket.socket:
    """Connect to the next rank, which may still be starting."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(address, timeout=PATIENCE_S)
        except OSError:
            if time.monotonic() > deadline:
                sys.exit(f"no rank at {address} after {PATIENCE_S:g} s")
            time.sleep(POLL_S)


def send(link: socket.socket, numbers: array[float]) -> None:
    """Send a vector."""
    data = numbers.tobytes()
    link.sendall(struct.pack("!I", len(data)) + data)


def receive(link: socket.socket) -> array[float]:
    """Return the next vector."""
    numbers = array("d")
    numbers.frombytes(exactly(link, struct.unpack("!I", exactly(link, 4))[0]))
    return numbers


def exactly(link: socket.socket, size: int) -> bytes:
    """Return the next `size` bytes."""
    data = bytearray()
    while len(data) < size:
        part = link.recv(min(size - len(data), 1 << 16))
        if not part:
            sys.exit("a neighbour hung up")
        data += part
    return bytes(data)


def all_reduce(rank: int, forward: socket.socket, back: socket.socket, own: array[float]) -> array[float]:
    """Return the sum of the vectors of all ranks: it grows along the ring, then goes around once more."""
    if rank:
        own = array("d", map(sum, zip(own, receive(back), strict=True)))
    send(forward, own)
    total = receive(back)
    if rank != int(os.environ["RANKS"]) - 1:
        send(forward, total)
    return total


def main() -> None:
    """Check each sum against what it must be; the exit status says whether all were right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--numbers", type=int, default=10000)
    given = parser.parse_args()
    rank, ranks = int(os.environ["QUICKSILVER_INSTANCE"]), given.ranks
    os.environ["RANKS"] = str(ranks)
    with socket.create_server(("0.0.0.0", int(os.environ["PORT_RING"]))) as server:
        server.settimeout(PATIENCE_S)
        forward = dial(peers(ranks)[(rank + 1) % ranks])
        back, _ = server.accept()
    back.settimeout(PATIENCE_S)
    all_reduce(rank, forward, back, array("d", [0.0]))  # all are there
    began_s = time.monotonic()
    for number in range(given.rounds):
        total = all_reduce(rank, forward, back, array("d", [float(rank + number)] * given.numbers))
        expected = ranks * number + ranks * (ranks - 1) / 2
        if any(each != expected for each in total):
            sys.exit(f"rank {rank}: round {number} gave {total[0]}, not {expected}")
    print(f"rank {rank} of {ranks}: {given.rounds} sums are right, {time.monotonic() - began_s:.3f} s")


if __name__ == "__main__":
    main()
