"""One calm history of promotion through all machines."""

from policies.model import Kind
from tests.model.checks import check
from tests.model.requestor import Want
from tests.model.test_whole import policies
from tests.model.world import Run


def step(run: Run) -> None:
    (am,) = run.ams
    run.tick(1.0)
    for node_id in run.sites:
        run.node_heartbeat(node_id)
    run.heartbeat(am)
    run.look(am)
    for container_id in [c for c, a in am.assigned.items() if a.call_id is None]:
        run.start(am, container_id)
    check(run)


def test_what_runs_becomes_guaranteed_everywhere_and_comes_to_rest() -> None:
    run = Run(policies(0, 0, 0, promote=1), ("MAPREDUCE",), 2, 1)
    (am,) = run.ams
    for _ in range(6):
        am.ask(Want(0, 20, (), (), 1024))
    for _ in range(10):
        step(run)
    attempt = run.coordinator.attempts[am.attempt_id]
    assert [live.kind for live in attempt.live] == [Kind.GUARANTEED] * 6
    assert [c.opportunistic for c in run.rm.app(1).containers.values()] == [False] * 6
    entries = [entry for site in run.sites.values() for entry in site.node.state.containers.values()]
    assert [entry.kind for entry in entries] == ["G"] * 6
    assert not [p for site in run.sites.values() for p in site.running.values() if p.opportunistic]
    run.restart_rm()
    for _ in range(3):
        step(run)
    assert [c.opportunistic for c in run.rm.app(1).containers.values()] == [False] * 6
    run.settle()
    assert not run.rm.app(1).containers and not len(attempt.live)
    run.close()
