"""Applies the slots `classify` and `partition`: which class each application is of, and which hosts it is kept off."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, MutableMapping
from typing import Final

from policies.config.policy_set import Policies
from policies.errors import PolicyFaultError
from policies.model import AppView, JobClass, JobView, NodeView
from policies.value_types import replace
from rm_proxy.domain.comparison import Compare, Question, not_compared, shadowed
from rm_proxy.job_classes.classes import JobClasses, TaskTime
from rm_proxy.job_classes.partition import Partition

_NOBODY: Final[frozenset[str]] = frozenset()
_NAMED: Final = 5


class ShortAndLong:
    """A machine: nodes and jobs in, applications with their class and the hosts they are kept off out.

    policies: returns those in force; apps: the applications that are known, by id; active: whether quicksilver acts for
    an application; task_time: see JobClasses; failed: called with an application's id, or "", and a policy's fault;
    compare: called with each decision.
    """

    def __init__(
        self,
        policies: Callable[[], Policies],
        apps: MutableMapping[str, AppView],
        active: Callable[[AppView], bool],
        task_time: Callable[[str], TaskTime | None],
        failed: Callable[[str, str], None],
        compare: Compare = not_compared,
    ) -> None:
        self._policies, self._apps, self._active, self._failed = policies, apps, active, failed
        self._compare = compare
        self.classes, self.partition = JobClasses(task_time), Partition()
        self._now_s = 0.0

    def app(self, app_id: str) -> AppView | None:
        """Return an application with its class as of now; None while it is not known.

        Asked within a request, so that nothing of a long job is asked for before it is kept off.
        """
        app = self._apps.get(app_id)
        if app is None:
            return None
        job_class = self._class_of(app)
        kept_off = self._off_for_long(app, job_class)
        if (app.job_class, app.kept_off) != (job_class, kept_off):
            app = self._apps[app_id] = replace(app, job_class=job_class, kept_off=kept_off)
        return app

    def _class_of(self, app: AppView) -> JobClass:
        own = self._policies().for_app(app)
        if not own.cluster.classifies and not shadowed(self._policies(), "classify"):
            return JobClass.NONE

        def classify(job: JobView) -> JobClass:
            try:
                choice = own.cluster.classify(job)
            except PolicyFaultError as error:
                self._failed(app.id, str(error))
                return JobClass.NONE
            self._compare(Question("classify", app, choice, lambda rival: rival.cluster.classify(job), _class))
            return choice

        job_class = self.classes.of(app, classify, self._now_s, again=own.cluster.classifies)
        return job_class if own.cluster.classifies else JobClass.NONE

    def kept_off(self, app_id: str) -> frozenset[str]:
        """Return the hosts that are kept for short jobs, where this application is long."""
        app = self.app(app_id)
        return app.kept_off if app is not None else _NOBODY

    def _off_for_long(self, app: AppView, job_class: JobClass) -> frozenset[str]:
        """Return the hosts that are kept for short jobs, if the application is long and quicksilver acts for it."""
        hosts = self.partition.hosts
        if not hosts or job_class is not JobClass.LONG or not self._active(app):
            return _NOBODY
        return hosts if self._policies().for_app(app).listed(app.queue) else _NOBODY

    def worked(self, app_id: str, seconds: float) -> None:
        """Learn from the run time of a container that ended, in seconds."""
        if self.app(app_id) is not None:
            self.classes.worked(app_id, seconds, self._now_s)

    def clear(self) -> None:
        """Take the classes off all applications: no policy classes jobs any more, nor keeps nodes for some."""
        for app in [app for app in self._apps.values() if app.job_class or app.kept_off]:
            self._apps[app.id] = replace(app, job_class=JobClass.NONE, kept_off=_NOBODY)
        self.partition.round((), None, self._now_s)

    def round(self, nodes: Iterable[NodeView], living: Collection[str], now_s: float) -> None:
        """Do the work of each second. living: applications that are not over, by id."""
        self._now_s, policies = now_s, self._policies()
        self.classes.forget_ended(living)
        cluster = policies.for_nodes.cluster

        def choose(views: list[NodeView]) -> frozenset[str]:
            shares = self.classes.shares
            try:
                hosts = cluster.partition(views, shares)
            except PolicyFaultError as error:
                self._failed("", str(error))
                return _NOBODY
            self._compare(
                Question("partition", None, hosts, lambda rival: rival.cluster.partition(views, shares), _nodes)
            )
            return hosts

        asks = cluster.partitions or shadowed(policies, "partition")
        self.partition.round(nodes, choose if asks else None, now_s)


def _class(job_class: JobClass) -> str:
    return job_class.value or "none"


def _nodes(nodes: Collection[str]) -> str:
    return f"{len(nodes)} nodes: {', '.join(sorted(nodes)[:_NAMED])}"
