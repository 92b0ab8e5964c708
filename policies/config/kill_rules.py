"""What counts before a container is killed: notice to its application master, and the run time that is protected."""

from __future__ import annotations

from policies.config.schema import Match, PolicySet, match_test, queue_test
from policies.model import AppView


class KillRules:
    """The settings `notice` and `protect` of a set of policies."""

    def __init__(self, section: PolicySet) -> None:
        self.wait_s = section.notice.wait_s
        """Time between a notice and the kill; 0: nobody gets one."""
        self._gets_notice = match_test(Match(type=section.notice.type))
        self._protected = [(queue_test(each.queue), each.protect_s) for each in section.protect]

    def notice_s(self, app_type: str) -> float:
        """Return the time between the notice to an application master of a type and the kill; 0 without notice."""
        return self.wait_s if self.wait_s and self._gets_notice(AppView("", type=app_type), 0) else 0.0

    def protect_s(self, queue: str) -> float:
        """Return for how long after its start a container of a YARN queue is protected; 0 for not at all."""
        return next((protect_s for in_queue, protect_s in self._protected if in_queue(queue)), 0.0)
