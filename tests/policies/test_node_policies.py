"""What a node decides: the order of waiting containers, and who is killed for a guaranteed one."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.config.registry import Registry
from policies.model import ContainerView, Kind, Resources

REGISTRY = Registry()
KILLERS = ("kill_newest", "kill_least_work", "kill_lowest_priority")


def q(
    name: str, memory_mb: int = 1024, vcores: float = 1, started_s: float | None = 0.0, **more: object
) -> ContainerView:
    wanted = Resources(memory_mb, vcores)
    return ContainerView(name, "app", Kind.QUEUEABLE, wanted, started_s=started_s, **more)  # type: ignore[arg-type]


def victims(need: Resources, *running: ContainerView, name: str = "kill_newest") -> list[str]:
    bound = REGISTRY.bind("preempt", name)
    chosen: list[str] = bound.decide(need, running, bound.cfg, 100.0)
    return chosen


def started_first(name: str, *waiting: ContainerView) -> list[str]:
    bound = REGISTRY.bind("order", name)
    return [c.id for c in sorted(waiting, key=lambda c: (bound.decide(c, bound.cfg, 100.0), c.id))]


def test_newest_first_and_only_as_many_as_needed() -> None:
    running = q("old", started_s=1), q("mid", started_s=2), q("new", started_s=3)
    assert victims(Resources(1024, 1), *running) == ["new"]
    assert victims(Resources(1025, 1), *running) == ["new", "mid"]
    assert victims(Resources(0, 3), *running) == ["new", "mid", "old"]


def test_none_when_they_would_not_suffice_or_nothing_is_needed() -> None:
    assert victims(Resources(1024, 2), q("a")) == []
    assert victims(Resources(), q("a")) == []
    assert victims(Resources(1, 0)) == []


def test_least_work_is_cpu_time_where_it_is_measured() -> None:
    """At second 100: `old` ran for 90 s but got 2 s of CPU; nobody measured `young`, which ran for 5 s."""
    old, young = q("old", started_s=10, attained_s=2.0), q("young", started_s=95)
    assert victims(Resources(1024, 1), old, young, name="kill_least_work") == ["old"]
    assert victims(Resources(1024, 1), old, young) == ["young"]
    assert victims(Resources(2048, 2), young, old, name="kill_least_work") == ["old", "young"]


def test_lowest_priority_is_the_queues_then_the_applications_then_the_needs() -> None:
    base = {"queue_priority": 2, "app_priority": 2, "precedence": 1, "priority": 20, "started_s": 5.0}

    def first(**worse: float) -> str:
        need = Resources(1024, 1)
        return victims(need, q("a", **base), q("b", **(base | worse)), name="kill_lowest_priority")[0]

    assert first(queue_priority=1, app_priority=9) == "b"
    assert first(app_priority=1, precedence=0) == "b"
    assert first(precedence=2, priority=1) == "b"
    assert first(priority=30, started_s=1.0) == "b"
    assert first(started_s=6.0) == "b"
    assert first(started_s=4.0) == "a"


def test_what_turned_out_unnecessary_is_spared() -> None:
    small, big = q("small", 512, started_s=2), q("big", 4096, started_s=1)
    assert victims(Resources(4096, 1), small, big) == ["big"]


def test_guaranteed_ones_are_never_chosen() -> None:
    guaranteed = ContainerView("g", "app", Kind.GUARANTEED, Resources(4096, 4), started_s=9)
    assert victims(Resources(1024, 1), guaranteed) == []
    assert victims(Resources(1024, 1), guaranteed, q("a")) == ["a"]


def test_none_kills_nobody() -> None:
    assert victims(Resources(1, 1), q("a"), name="none") == []


containers = st.lists(
    st.builds(
        lambda name, memory, cores, started: q(f"c{name:02}", memory, cores, started),
        st.integers(0, 20),
        st.integers(0, 6),
        st.integers(0, 3),
        st.integers(0, 4),
    ),
    max_size=7,
    unique_by=lambda c: c.id,
)


@settings(deadline=None)
@given(st.sampled_from(KILLERS), st.builds(Resources, st.integers(0, 12), st.integers(0, 6)), containers)
def test_victims_suffice_and_none_could_be_left_out(name: str, need: Resources, running: list[ContainerView]) -> None:
    chosen = victims(need, *running, name=name)
    assert chosen == victims(need, *reversed(running), name=name)
    by_id = {c.id: c.resources for c in running}
    assert len(set(chosen)) == len(chosen) and set(chosen) <= set(by_id)
    everything = sum(by_id.values(), Resources())
    if need == Resources() or not need.fits(everything):
        assert chosen == []
        return
    assert need.fits(sum((by_id[c] for c in chosen), Resources()))
    for fewer in combinations(chosen, len(chosen) - 1):
        assert not need.fits(sum((by_id[c] for c in fewer), Resources()))


def test_fifo_knows_arrival_alone() -> None:
    late = q("late", arrived_s=2, job_submitted_s=1, queue_priority=9, precedence=-1)
    assert started_first("fifo", late, q("early", arrived_s=1, job_submitted_s=50)) == ["early", "late"]


def test_job_submission_order() -> None:
    base = {"job_submitted_s": 10.0, "precedence": 1, "priority": 20, "arrived_s": 5.0}

    def first(**better: float) -> str:
        return started_first("job_submission", q("a", **base), q("b", **(base | better)))[0]

    assert first(arrived_s=4.0) == "b"
    assert first(priority=10, arrived_s=9.0) == "b"
    assert first(precedence=0, priority=30) == "b"
    assert first(job_submitted_s=9.0, precedence=2) == "b"
    assert first(app_priority=1, job_submitted_s=99.0) == "b"
    assert first(queue_priority=1, app_priority=-5) == "b"
    assert first(arrived_s=6.0) == "a"


def test_srpt_goes_by_what_the_job_has_left_and_at_least_by_the_task() -> None:
    long = q("long", job_remaining_s=100.0, expected_s=1.0)
    assert started_first("srpt", long, q("short", job_remaining_s=99.0, expected_s=50.0)) == ["short", "long"]
    assert started_first("srpt", long, q("unknown", expected_s=101.0)) == ["long", "unknown"]
    assert started_first("srpt", q("a", app_priority=1, job_remaining_s=9e9), long) == ["a", "long"]


def test_sjf_goes_by_the_task() -> None:
    long, short = q("long", expected_s=9.0, job_remaining_s=9.0), q("short", expected_s=8.0, job_remaining_s=8e9)
    assert started_first("sjf", long, short) == ["short", "long"]
    assert started_first("sjf", q("a", queue_priority=1, expected_s=99.0), short) == ["a", "short"]


def test_hrrn_weighs_the_wait_by_the_duration() -> None:
    """At second 100: waits of 90 s and 20 s with 45 s and 5 s expected are ratios of 3 and 5."""
    long, short = q("long", expected_s=45.0, arrived_s=10.0), q("short", expected_s=5.0, arrived_s=80.0)
    assert started_first("hrrn", long, short) == ["short", "long"]
    assert started_first("hrrn", q("long", expected_s=18.0, arrived_s=10.0), short) == ["long", "short"]


def test_random_order_is_steady_and_knows_the_id_alone() -> None:
    waiting = [q(f"container_1_1_01_{n:06}", arrived_s=n, queue_priority=n % 3) for n in range(1, 401)]
    order = started_first("random", *waiting)
    assert order == started_first("random", *reversed(waiting)), "the same at each look"
    shuffled = [q(c.id, arrived_s=-c.arrived_s, app_priority=9, precedence=3) for c in waiting]
    assert started_first("random", *shuffled) == order
    late = sum(name > waiting[199].id for name in order[:200])
    assert 70 < late < 130, "about half of the first half came late"
