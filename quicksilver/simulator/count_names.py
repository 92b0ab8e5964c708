"""What the counts and further figures of a run mean, in the words of the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_MEANINGS: Final[Mapping[str, str]] = {
    "tasks": "tasks of the jobs that arrived",
    "started": "starts of a task; above `tasks`, some were started again",
    "ended": "tasks that ended well",
    "lost": "tasks that had not ended when the run did",
    "unfinished": "jobs that had not ended when the run did; of `recorded`, tasks without a known end",
    "doubled": "tasks that were begun or done twice by mistake: always 0",
    "kills": "containers that were killed",
    "stopped": "second copies of a task that were stopped as the first one ended",
    "failed": "tries that failed",
    "events": "steps of the simulation: a measure of its cost",
    "faults": "answers that the proxy's own checks found wrong: 0 in a sound run",
    "sheds": "queued containers that were sent to another node",
    "shrink": "times that a running container was given less CPU for another one",
    "restore": "times that such a container got its CPU back",
    "granted G": "guaranteed containers that were granted",
    "granted Q": "queueable containers that were granted",
    "FellBack": "queueable requests that were asked for as guaranteed ones after all",
    "Returned": "containers that went back to the proxy before their start",
    "windows changed": "times that a window of the policies opened or closed",
    "waits": "requests of masters that were held until there was news",
    "polls": "requests of masters",
    "preemptions": "running tasks that were paused, or elastic components that were taken, for others",
    "grants": "components that were given to applications",
    "queueable": "containers that were recorded as queueable",
    "upgrades": "opportunistic tasks that became regular ones",
    "opportunistic": "tasks that were started opportunistically",
    "probes": "places in the queues of nodes that were asked for",
    "steals": "tasks that idle nodes took from the queues of others",
    "rescheduled": "probes that were sent on to another node",
    "contacts": "nodes that idle nodes asked for work",
    "to_short_partition": "tasks of short jobs that went to the nodes kept for them",
    "behind_long": "short tasks or probes that were queued behind a long task",
    "long_behind_long": "long tasks that were queued behind a long task",
    "tasks_after_long": "tasks that started on a slot after a long one",
    "duplicates": "second copies of tasks that were started",
    "duplicates_won": "second copies that ended first",
    "stragglers": "tasks that were found to be slow",
    "reruns": "tasks that were run again",
    "reruns_won": "second copies of slow tasks that ended first",
    "lost_s": "seconds that killed containers had run for nothing",
    "over_capacity": "nodes that held more than their capacity at some time: 0 in a sound run",
    "regular_wait_p95_s": "p95 of the waits of regular tasks, seconds",
    "wait_error_below_1s_share": "share of the waits that were estimated to within 1 s",
    "opportunistic_share": "share of the work that ran opportunistically",
}
_FAMILIES: Final[Mapping[str, str]] = {
    "decided ": "decisions of this policy slot that are recorded",
    "waits ended: ": "held requests that were answered for this reason",
}


def meaning(name: str) -> str:
    """Return what a count is, "" of one that a system explains by its name alone."""
    return _MEANINGS.get(name) or next((text for begin, text in _FAMILIES.items() if name.startswith(begin)), "")
