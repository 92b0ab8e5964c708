"""Worked numbers of Mercury (USENIX ATC '15) for the policies that come from it."""

from math import inf
from random import Random

import pytest

from policies.config.policy_set import Policies
from policies.model import AppView, Ask, ContainerView, Kind, NodeView, QueueView, Resources
from policies.place.topk_wait import POLICY as TOPK_WAIT
from policies.place.topk_wait import TopKWait, rank_s
from policies.quota.absolute import Absolute, quota
from policies.route.hybrid_gq import HybridGQ, route
from policies.route.only_g import POLICY as ONLY_G
from policies.route.only_q import POLICY as ONLY_Q

QUEUE = QueueView("root.batch")
SHORT_S, LONG_S = 2.0, 50.0


def ask(expected_s: float = 1.2, live_q: int = 0) -> Ask:
    return Ask(AppView("app1", live_q=live_q), 20, Resources(4096, 1), expected_s=expected_s)


def test_rank_is_the_sum_of_three_times() -> None:
    """§4.2: R = Tq + Tr + Tl."""
    assert rank_s(NodeView("n:1", queued_s=12.0, remaining_s=2.5, since_queueable_s=0.5)) == 15.0


def hybrid_workload(cfg: HybridGQ, seed: int) -> dict[float, float]:
    """Return the fraction of queueable tasks by duration: §7.4.1, tasks of 2 s and of 50 s, 20,000 of each."""
    rng = Random(seed)
    return {
        duration_s: sum(route(ask(duration_s), cfg, rng).kind is Kind.QUEUEABLE for _ in range(20_000)) / 20_000
        for duration_s in (SHORT_S, LONG_S)
    }


@pytest.mark.parametrize(
    ("td_s", "pq", "short", "long"),
    [
        (inf, 0, 0.0, 0.0),  # only-G
        (inf, 100, 1.0, 1.0),  # only-Q
        (inf, 50, 0.5, 0.5),  # 50%-Q
        (5, 100, 1.0, 0.0),  # <5sec-Q
        (10, 70, 0.7, 0.0),  # <10sec-70%-Q
    ],
)
def test_hybrid_gq_as_configured_in_the_paper(td_s: float, pq: float, short: float, long: float) -> None:
    """§5 and §7.4: the named configurations; standard deviation of the fractions is at most 0.0036."""
    found = hybrid_workload(HybridGQ(td_s=td_s, pq=pq), 2015)
    assert found[SHORT_S] == pytest.approx(short, abs=0.015)
    assert found[LONG_S] == pytest.approx(long, abs=0.015)


def test_best_configuration_makes_56_percent_of_the_hybrid_workload_queueable() -> None:
    """§7.4.1: 80% of the jobs have tasks of 2 s, 20% of 50 s; 0.8 * 0.7 = 0.56 by job."""
    found = hybrid_workload(HybridGQ(), 7)
    assert 0.8 * found[SHORT_S] + 0.2 * found[LONG_S] == pytest.approx(0.56, abs=0.012)


def test_only_g_and_only_q_are_the_ends_of_hybrid_gq() -> None:
    """§5: only-G = (inf, 0%), only-Q = (inf, 100%)."""
    for duration_s in (0.0, SHORT_S, LONG_S, 1e6):
        for pure, pq in ((ONLY_G, 0), (ONLY_Q, 100)):
            end = route(ask(duration_s), HybridGQ(td_s=inf, pq=pq), Random(3))
            assert pure.decide(ask(duration_s), pure.config(), Random(3)).kind is end.kind


@pytest.mark.long
def test_fifty_of_256_nodes_are_drawn_from() -> None:
    """§7.2.2: on 256 nodes each of the k = 50 of least R is drawn, and no other."""
    nodes = [NodeView(f"n{i:03}:1", f"n{i:03}", capacity=Resources(131072, 32), queued_s=i / 10) for i in range(256)]
    shuffled = Random(1).sample(nodes, len(nodes))
    rng = Random(256)
    drawn = [TOPK_WAIT.decide(ask(), shuffled, TopKWait(), rng).node for _ in range(5000)]
    assert set(drawn) == {node.id for node in nodes[:50]}
    assert max(drawn.count(node.id) for node in nodes[:50]) < 160  # 100 expected, standard deviation 9.9


def test_absolute_quota_of_the_paper() -> None:
    """§4.1: app1 can have at most 100 outstanding queueable containers."""
    queue = QueueView("root.default")
    assert quota(ask(live_q=99), queue, Absolute(max_q=100)) is None
    assert quota(ask(live_q=100), queue, Absolute(max_q=100)) == (
        "absolute: app1 has 100 queueable containers, its quota is 100"
    )


def test_tasks_of_jobs_that_were_submitted_earlier_run_first() -> None:
    """§4.3: whatever came to the node first."""
    order = Policies.load({})
    later = ContainerView("a", "job2", Kind.QUEUEABLE, Resources(), job_submitted_s=200, arrived_s=1)
    earlier = ContainerView("b", "job1", Kind.QUEUEABLE, Resources(), job_submitted_s=100, arrived_s=9)
    assert order.node.order_key(earlier, 10) < order.node.order_key(later, 10)
