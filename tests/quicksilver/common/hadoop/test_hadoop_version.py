"""What each version of Hadoop can do."""

from __future__ import annotations

import pytest

from quicksilver.common.hadoop.hadoop_version import ENABLED, NODES_USED, HadoopVersion


@pytest.mark.parametrize(
    ("text", "supported", "known", "central", "nodes_used", "forgets"),
    [
        ("2.10.2", False, True, False, "-1", False),
        ("3.0.3", False, True, False, "-1", False),
        ("3.1.1.7.1.9.0-387", True, True, False, "-1", False),
        ("3.2.4", True, True, False, "-1", False),
        ("3.3.6-amzn-2", True, True, True, "0", False),
        ("3.4.2", True, True, True, "0", False),
        ("3.5.0", True, True, True, "0", True),
        ("3.6.0", True, False, True, "0", True),
        ("trunk", True, False, True, "0", True),
    ],
)
def test_versions(text: str, supported: bool, known: bool, central: bool, nodes_used: str, forgets: bool) -> None:
    version = HadoopVersion(text)
    assert (version.supported, version.known, version.central_allocator) == (supported, known, central)
    assert (version.nodes_used, version.forgets_requests) == (nodes_used, forgets)
    assert bool(version.limits) == (supported and not central)


def test_only_numbers_at_the_beginning_count() -> None:
    assert HadoopVersion("3.4.2-vendor-7.1").numbers == (3, 4, 2)
    assert HadoopVersion("trunk").numbers == ()


def test_control_groups_v2_are_spoken_since_3_5() -> None:
    assert [HadoopVersion(text).speaks_cgroup2 for text in ("3.4.2", "3.5.0", "trunk")] == [False, True, False]


@pytest.mark.parametrize(
    ("text", "enabled", "nodes_used", "why"),
    [
        ("3.1.1", "true", "0", f"Hadoop 3.1.1 grants none with {NODES_USED}=0; set it to -1"),
        ("3.1.1", "true", "-1", ""),
        ("3.1.1", "true", "10", ""),
        ("3.1.1", None, None, ""),
        ("3.4.2", " TRUE ", "0", ""),
        ("3.4.2", "false", "0", f"{ENABLED} is not true in the ResourceManager"),
        ("2.10.2", "true", "0", "Hadoop 2.10.2 grants no OPPORTUNISTIC containers on named nodes"),
    ],
)
def test_why_nothing_is_granted(text: str, enabled: str | None, nodes_used: str | None, why: str) -> None:
    assert HadoopVersion(text).why_no_grants(enabled, nodes_used) == why
