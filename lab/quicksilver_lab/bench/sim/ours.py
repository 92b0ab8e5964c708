"""`python -m quicksilver_lab.bench.sim.ours TRACE SYSTEM NODES SEED OUT`: a run and its parsing, timed from outside."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from quicksilver.simulator.model import ClusterModel
from quicksilver.simulator.systems import load
from quicksilver.simulator.traces.formats.hawk import read_hawk


def main(trace: str, system: str, nodes: str, seed: str, out: str) -> None:
    """Run one system on a trace as the peer reads it; write jobs' completion times by class."""
    simulator = load(system)
    result = simulator.run(
        read_hawk(Path(trace), as_eagle=True), ClusterModel(int(nodes)), simulator.Settings(), int(seed)
    )
    done: dict[str, list[float]] = {"short": [], "long": []}
    for job in result.jobs:
        done[job.klass].append(job.completion_s)
    Path(out).write_text(json.dumps({"tasks": result.counts["tasks"], "counts": result.counts, **done}))


if __name__ == "__main__":
    main(*sys.argv[1:])
