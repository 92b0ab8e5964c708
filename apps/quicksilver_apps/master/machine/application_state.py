"""All that one attempt of the master knows of its application; the parts of the machine share it."""

from __future__ import annotations

from quicksilver_apps.master.machine.event_log import EventLog
from quicksilver_apps.master.machine.instances import CORE, ELASTIC, Instance, ServiceState
from quicksilver_apps.master.machine.spec import FilledApplication


class ApplicationState:
    """The services, their instances, which container runs which one, and what happened."""

    def __init__(self, application: FilledApplication, now_s: float) -> None:
        """Begin before the registration."""
        self.application = application
        self.started_s = now_s
        self.state = "starting"
        """starting, running, ending or ended."""
        self.final = ""
        """succeeded, failed or killed, once it is ending."""
        self.diagnostics = ""
        self.services = {spec.name: ServiceState.of(spec) for spec in application.services}
        self.containers: dict[str, tuple[str, int]] = {}
        """Service and index by container, of instances that have one."""
        self.idle_grants: set[str] = set()
        """Containers that were granted and are not started."""
        self.log = EventLog()

    @property
    def running(self) -> bool:
        """Whether it registered and does not end."""
        return self.state == "running"

    @property
    def over(self) -> bool:
        """Whether it is ending, or has ended."""
        return self.state in ("ending", "ended")

    def instance(self, container_id: str) -> tuple[ServiceState, Instance] | None:
        """Return the instance that a container runs, or None."""
        place = self.containers.get(container_id)
        if place is None:
            return None
        service = self.services[place[0]]
        return service, service.instances[place[1]]

    def of_priority(self, priority: int) -> ServiceState | None:
        """Return the service of a YARN request priority, or None."""
        return next((service for service in self.services.values() if service.spec.priority == priority), None)

    def forget_container(self, instance: Instance, now_s: float) -> None:
        """Have an instance wait for another container."""
        if instance.grant is not None:
            self.containers.pop(instance.grant.id, None)
            self.idle_grants.discard(instance.grant.id)
        instance.clear(now_s)

    def replace(self, service: ServiceState, instance: Instance, now_s: float) -> None:
        """Have an instance wait for a new container; an elastic one takes the place of a core one."""
        self.forget_container(instance, now_s)
        heir = service.heir() if instance.kind == CORE else None
        if heir is not None:
            instance.kind, heir.kind = ELASTIC, CORE
            self.say(now_s, f"counts as core in place of instance {instance.index}", service, heir)

    def say(
        self, now_s: float, text: str, service: ServiceState | None = None, instance: Instance | None = None
    ) -> None:
        """Add an event for people."""
        name = service.spec.name if service is not None else ""
        self.log.add(now_s, text, name, instance.index if instance is not None else None)
