"""A node: the sidecar's machines (gate, node, queue) as the product has them, before a modelled NodeManager.

The shell between the machines is small: one gate per application attempt, everything on it as bytes, no sockets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from hadoop_rpc.connection import NM_PROTOCOL, Call, ClientConnection, Failure, Response, SaslFrame, ServerConnection
from hadoop_rpc.login import TokenLogin
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto, TokenProto
from policies.config.policy_set import Policies
from policies.model import ContainerView, Resources
from quicksilver.common.messages import Ack, ContainerEvent, Grant, Report
from rm_proxy.domain import ids
from sidecar.gate import events as ge
from sidecar.gate.container_calls import ServicesMeta
from sidecar.gate.gate import Gate, start_body
from sidecar.gate.start_messages import outcome_of
from sidecar.node import events as ev
from sidecar.node import journal_records
from sidecar.node.container import Rules
from sidecar.node.nm_reconcile import Listed, NmList, compare
from sidecar.node.node import SidecarNode
from sidecar.node.node_policies import NodePolicies
from sidecar.node.phases import Phase
from sidecar.node.recovery import Restored
from sidecar.node.report_view import fill_report

CHALLENGE = b'realm="default",nonce="n",qop="auth",charset=utf-8,algorithm=md5-sess'
Known = Callable[[str], bool]
"""Whether the ResourceManager knows a container: else its token is of an earlier one, and refused."""


@dataclass
class Process:
    """A container that the NodeManager runs."""

    id: str
    number: int
    opportunistic: bool
    memory_mb: int
    version: int = 0

    def promoted(self) -> None:
        """Handle the ResourceManager's new token."""
        self.opportunistic, self.version = False, 1


class Link:
    """An attempt's connection at this node: the application master's end, the gate, the NodeManager's end."""

    def __init__(self, site: Site, attempt_id: str) -> None:
        self.gate = Gate(site.node.state, site.meta)
        self.client, self.server = ClientConnection(), ServerConnection()
        self.answers: dict[int, Response | Failure] = {}
        self.calls = 0
        self.site = site
        token = y.NMTokenIdentifierProto(appSubmitter="u")
        _, timestamp, app, attempt = attempt_id.split("_")
        token.appAttemptId.attemptId = int(attempt)
        token.appAttemptId.application_id.id = int(app)
        token.appAttemptId.application_id.cluster_timestamp = int(timestamp)
        proto = TokenProto(identifier=token.SerializeToString(), password=b"pw", kind="NMToken", service="s")
        self._login = TokenLogin(self.client, NM_PROTOCOL, token=proto, cnonce="c")
        site.inbox.append((self, ge.FromClient(self._login.start())))

    def to_client(self, data: bytes) -> None:
        for event in self.client.receive_data(data):
            if isinstance(event, SaslFrame):
                self.site.inbox.append((self, ge.FromClient(self._login.handle(event))))
            else:
                assert isinstance(event, Response | Failure)
                self.answers[event.call_id] = event

    def to_upstream(self, data: bytes) -> None:
        for event in self.server.receive_data(data):
            if isinstance(event, SaslFrame):
                state = RpcSaslProto.SUCCESS
                if event.state == RpcSaslProto.NEGOTIATE:
                    auth = RpcSaslProto.SaslAuth(method="TOKEN", mechanism="DIGEST-MD5", challenge=CHALLENGE)
                    answer = RpcSaslProto(state=RpcSaslProto.NEGOTIATE, auths=[auth])
                else:
                    proof = self._login._digest._expected if self._login._digest else ""
                    answer = RpcSaslProto(state=state, token=f"rspauth={proof}".encode())
                self._from_upstream(self.server.sasl(answer))
            elif isinstance(event, Call):
                self._from_upstream(self.server.response(event, self.site.nm_call(event)))

    def _from_upstream(self, data: bytes) -> None:
        self.site.inbox.append((self, ge.FromUpstream(data)))


class Site:
    """One node."""

    def __init__(self, node_id: str, memory_mb: int, vcores: int, policies: Policies, known: Known) -> None:
        self.id = node_id
        self.policies, self._known = policies, known
        self.size = Resources(memory_mb, vcores)
        self.now_s = 0.0
        self.meta = ServicesMeta()
        self.running: dict[str, Process] = {}
        self.ran: dict[int, Process] = {}
        self.started: list[int] = []
        """Told to the ResourceManager with the next heartbeat."""
        self.ended: dict[int, int] = {}
        self.refuse_next = False
        self.down = False
        """Whether the NodeManager is dead; its containers may live."""
        self.inbox: deque[tuple[Link, ge.GateEvent] | ev.Event | Restored] = deque()
        self.links: dict[str, Link] = {}
        self.waiters: dict[str, list[Link]] = {}
        self.tells: list[ContainerEvent] = []
        self.most_running_mb = 0
        self.boot()

    def boot(self) -> None:
        """Start the sidecar for the first time."""
        rules = Rules(capacity=self.size, reserve_mb=0)
        of_node = self.policies.node
        asked = NodePolicies(of_node.order_key, self._victims, of_node.bypass_limit_s)
        self.node = SidecarNode(rules, replace(asked, fills=lambda: of_node.fills, fill=of_node.fill))
        self.journal = [journal_records.head_line(self.id, "boot", 0)]

    def crash(self) -> None:
        """Kill the sidecar and start it anew: it knows what is in its journal, and all sessions are lost."""
        text = "".join(f"{line}\n" for line in self.journal)
        self.links.clear()
        self.waiters.clear()
        self.inbox.clear()
        self.boot()
        self.journal = text.split("\n")[:-1]
        memory = journal_records.read(text)
        self.tells = list(memory.events.values())
        self.tell(Restored(memory, self.now_s))
        if self.down:
            self.tell(ev.NodeManagerState("it is dead", self.now_s))

    def memory(self) -> journal_records.MemoryRecord:
        """Return what a next life would know."""
        return journal_records.read("".join(f"{line}\n" for line in self.journal))

    def finish_unseen(self, container_id: str, exit_status: int) -> None:
        """A task ends while nobody watches."""
        process = self.running.pop(container_id)
        self.ended[process.number], self.ran[process.number] = exit_status, process

    def look_at_list(self) -> None:
        """Compare the NodeManager's list, as the sidecar does each second after a restart."""
        rows = [
            Listed(
                id=p.id,
                state="RUNNING",
                executionType="OPPORTUNISTIC" if p.opportunistic else "GUARANTEED",
                totalMemoryNeededMB=p.memory_mb,
                totalVCoresNeeded=1,
            )
            for p in self.running.values()
        ]
        for event in compare(NmList(tuple(rows), self.now_s), self.node.state.containers, (), (), self.now_s):
            self.tell(event)

    def _victims(
        self, need: Resources, running: list[ContainerView] | tuple[ContainerView, ...], now_s: float
    ) -> list[str]:
        return self.policies.node.victims(need, running, now_s)

    def _work(self) -> None:
        while self.inbox:
            item = self.inbox.popleft()
            if isinstance(item, tuple):
                link, event = item
                for gate_command in link.gate.handle(event):
                    self._obey_gate(link, gate_command)
            else:
                commands = self.node.handle(item)
                self.journal += [
                    journal_records.line_of(self.node.state, cid) for cid in self.node.state.take_changed()
                ]
                self.journal += [journal_records.event_line(c.event) for c in commands if isinstance(c, ev.ReportEvent)]
                for command in commands:
                    self._obey(command)

    def tell(self, event: ev.Event | Restored) -> None:
        self.inbox.append(event)
        self._work()

    # The shell

    def _obey_gate(self, link: Link, command: ge.GateCommand) -> None:
        match command:
            case ge.ToClient():
                link.to_client(command.data)
            case ge.ToUpstream():
                link.to_upstream(command.data)
            case ge.StartWanted():
                self.waiters.setdefault(command.start.container_id, []).append(link)
                self.inbox.append(ev.Arrived(command.start, self.now_s))
            case ge.StartAnswered():
                self.inbox.append(ev.Answered(command.container_id, command.outcome, command.text, self.now_s))
            case ge.StopWanted():
                self.inbox.append(ev.StopAsked(command.container_id, self.now_s))
            case ge.ForceWanted():
                self.inbox.append(ev.Forced(command.container_id, self.now_s))
            case ge.HoldFailed():
                self.inbox.append(ev.Dropped((command.container_id,), command.text, self.now_s))
            case ge.OwnAnswer():
                outcome, text = outcome_of(command.answer, command.tag[1])
                self.inbox.append(ev.Answered(command.tag[1], outcome, text, self.now_s))
            case ge.LoggedIn():
                self.inbox.append(ev.SessionUp(command.attempt_id, self.now_s))
            case ge.StartEarly():
                self.inbox.append((link, ge.Again(command.container_id)))  # its second passes at once
            case ge.Garbage():
                raise AssertionError(f"{command.side}: {command.text}")

    def _obey(self, command: ev.Command) -> None:
        match command:
            case ev.Forward() | ev.Hold():
                hold = isinstance(command, ev.Hold)
                for link in self.waiters.pop(command.container_id, []):
                    self.inbox.append((link, ge.GateDecided(command.container_id, hold)))
            case ev.Launch():
                link = self.links.get(command.attempt_id)
                if link is None:
                    self.inbox.append(ev.Answered(command.container_id, ev.Outcome.LOST, "no session", self.now_s))
                else:
                    tag = ("start", command.container_id)
                    self.inbox.append((link, ge.OwnCall(tag, "startContainers", start_body(command.payload))))
            case ev.Kill():
                self.stop(command.container_id, -105)
                self.inbox.append(ev.KillOver(command.container_id, True, "", self.now_s))
            case ev.Settled():
                for link in self.links.values():
                    self.inbox.append((link, ge.Going(command.container_id)))
            case ev.ReportEvent():
                self.tells.append(command.event)

    # The application master

    def link(self, attempt_id: str) -> Link:
        if attempt_id not in self.links:
            self.links[attempt_id] = Link(self, attempt_id)
            self._work()
        return self.links[attempt_id]

    def start(self, attempt_id: str, container: y.ContainerProto, opportunistic: bool) -> int:
        """Start a container; returns the call, which `answered` tells about (a dead NodeManager: at once, as failed).

        `opportunistic`: what the container's token says, which the application master cannot read.
        """
        if self.down:
            return 0
        token = y.ContainerTokenIdentifierProto(appSubmitter="u", expiryTimeStamp=int((self.now_s + 600) * 1000))
        token.containerId.CopyFrom(container.id)
        token.resource.CopyFrom(container.resource)
        token.priority.CopyFrom(container.priority)
        token.executionType = y.OPPORTUNISTIC if opportunistic else y.GUARANTEED
        token.containerType = y.TASK
        request = y.StartContainersRequestProto()
        sealed = request.start_container_request.add().container_token
        sealed.identifier, sealed.password = token.SerializeToString(), b"pw"
        sealed.kind, sealed.service = "ContainerToken", "s"
        return self._call(attempt_id, "startContainers", request.SerializeToString())

    def answered(self, attempt_id: str, call_id: int) -> bool | None:
        """Return whether a start was answered as started; None: no answer yet. A lost session is a failure."""
        link = self.links.get(attempt_id)
        if link is None:
            return False
        answer = link.answers.get(call_id)
        if answer is None:
            return None
        assert isinstance(answer, Response), answer
        told = y.StartContainersResponseProto.FromString(answer.body)
        assert len(told.succeeded_requests) + len(told.failed_requests) == 1
        return bool(told.succeeded_requests)

    def stop_by_am(self, attempt_id: str, container: y.ContainerIdProto) -> None:
        if self.down:
            return
        request = y.StopContainersRequestProto(container_id=[container])
        self._call(attempt_id, "stopContainers", request.SerializeToString())

    def _call(self, attempt_id: str, method: str, body: bytes) -> int:
        link = self.link(attempt_id)
        link.calls += 1
        call_id = link.calls
        self.inbox.append((link, ge.FromClient(link.client.call(method, NM_PROTOCOL, body, call_id=call_id))))
        self._work()
        return call_id

    def lose_session(self, attempt_id: str) -> None:
        link = self.links.pop(attempt_id, None)
        if link is not None:
            self.inbox.append((link, ge.UpstreamClosed()))
            self._work()
            self.tell(ev.SessionLost(attempt_id, self.now_s))

    # The NodeManager

    def nodemanager_dies(self) -> None:
        """By SIGKILL: what runs goes on, all sessions end."""
        self.down = True
        for attempt_id in list(self.links):
            self.lose_session(attempt_id)
        self.tell(ev.NodeManagerState("it is dead", self.now_s))

    def nodemanager_returns(self, recovers: bool) -> None:
        """Start it anew: it knows all that runs and ran, or nothing; what it does not know ends soon."""
        self.down = False
        if recovers:
            self.started = [process.number for process in self.running.values()]
        else:
            for container_id in list(self.running):
                self.finish(container_id, -100)
            self.started, self.ended = [], {}
        self.tell(ev.NodeManagerState("", self.now_s))

    def nm_call(self, call: Call) -> bytes:
        if call.method == "stopContainers":
            stop = y.StopContainersRequestProto.FromString(call.body)
            for each in stop.container_id:
                self.stop(ids.container_id_text(each), -105)
            return y.StopContainersResponseProto(succeeded_requests=stop.container_id).SerializeToString()
        assert call.method == "startContainers", call.method
        answer = y.StartContainersResponseProto()
        answer.services_meta_data.add(key="mapreduce_shuffle", value=b"\x00\x00\x33\xfa")
        for each in y.StartContainersRequestProto.FromString(call.body).start_container_request:
            token = y.ContainerTokenIdentifierProto.FromString(each.container_token.identifier)
            why = self._refusal(ids.container_id_text(token.containerId))
            if why:
                failed = answer.failed_requests.add()
                failed.container_id.CopyFrom(token.containerId)
                failed.exception.class_name, failed.exception.message = "org.example.StartException", why
            else:
                self._run(token)
                answer.succeeded_requests.add().CopyFrom(token.containerId)
        return answer.SerializeToString()

    def _refusal(self, container_id: str) -> str:
        assert container_id not in self.running, f"{container_id} started twice"
        if not self._known(container_id):
            return f"Container {container_id} rejected as it is allocated by a previous RM"
        if self.refuse_next:
            self.refuse_next = False
            return "The auxService:nope does not exist"
        return ""

    def _run(self, token: y.ContainerTokenIdentifierProto) -> None:
        cid = ids.container_id_text(token.containerId)
        opportunistic = token.executionType == y.OPPORTUNISTIC
        self.running[cid] = Process(cid, token.containerId.id, opportunistic, token.resource.memory)
        self.started.append(token.containerId.id)

    def stop(self, container_id: str, exit_status: int) -> None:
        process = self.running.pop(container_id, None)
        if process is not None:
            self.ended[process.number], self.ran[process.number] = exit_status, process
            self.inbox.append(ev.Ended(container_id, self.now_s))

    def finish(self, container_id: str, exit_status: int) -> None:
        """A task ends."""
        self.stop(container_id, exit_status)
        self._work()

    def look_at_processes(self) -> None:
        """See, as the sidecar's watcher does, which containers have no process."""
        for entry in list(self.node.state.containers.values()):
            if entry.phase is Phase.RUNNING and entry.id not in self.running:
                self.tell(ev.Ended(entry.id, self.now_s))

    # The proxy

    def announce(self, grant: Grant) -> None:
        self.tell(ev.Granted((grant,), self.now_s))

    def drop(self, container_ids: tuple[str, ...], reason: str) -> None:
        self.tell(ev.Dropped(container_ids, reason, self.now_s))

    def report(self) -> Report:
        base = Report(
            node_id=self.id,
            boot="boot",
            seq=1,
            sidecar_url="http://127.0.0.1:1",
            memory_mb=self.size.memory_mb,
            vcores=self.size.vcores,
            events=list(self.tells),
        )
        return fill_report(base, self.node, self.now_s)

    def acknowledged(self, ack: Ack) -> None:
        self.tells = [e for e in self.tells if e.seq > ack.events_to]
        self.journal.append(journal_records.acked_line(ack.events_to))
        if ack.drain is not None and ack.drain != self.node.state.drains.get("yarn", ""):
            self.tell(ev.Drain(bool(ack.drain), ack.drain, self.now_s, "yarn"))
        if ack.known:
            self.tell(ev.NowKnown(tuple(ack.known), self.now_s))
        if ack.drop:
            self.drop(tuple(ack.drop), ack.drop_reason)
        if ack.targets is not None or ack.shed or ack.promoted:
            self.tell(ev.Targeted(ack.targets, tuple(ack.shed), tuple(ack.promoted), self.now_s))
