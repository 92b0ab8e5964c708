"""Reading a NodeManager's log: lines as Hadoop 3.4.2 writes them."""

from quicksilver_lab.workloads.nm_log import Life, lives, most_at_once

LINE = (
    "2026-11-21 14:00:0{at},500 INFO org.apache.hadoop...ContainerImpl: Container {cid} transitioned from {a} to {b}\n"
)
LOG = "".join(
    LINE.format(at=at, cid=f"container_1_0001_01_00000{number}", a=a, b=b)
    for at, number, a, b in (
        (0, 2, "LOCALIZED", "SCHEDULED"),
        (1, 2, "SCHEDULED", "RUNNING"),
        (1, 3, "SCHEDULED", "RUNNING"),
        (3, 2, "RUNNING", "EXITED_WITH_SUCCESS"),
        (4, 2, "EXITED_WITH_SUCCESS", "DONE"),
        (5, 4, "SCHEDULED", "RUNNING"),
        (6, 3, "RUNNING", "KILLING"),
    )
)


def test_lives_and_how_many_at_once() -> None:
    found = lives("node1", "INFO something else\n" + LOG)
    assert [cid[-1] for cid in found] == ["2", "3", "4"]
    second, third, fourth = found.values()
    assert second.running_s is not None and second.over_s is not None and third.over_s is not None
    assert (second.over_s - second.running_s, third.over_s - second.running_s) == (2.0, 5.0)
    assert fourth.over_s is None and fourth.node == "node1"
    assert [one.killed for one in (second, third, fourth)] == [False, True, False]
    assert most_at_once(found.values()) == 2
    assert most_at_once([]) == 0
    assert most_at_once([Life("n"), Life("n", 1.0), Life("n", 0.0, 1.0)]) == 1
