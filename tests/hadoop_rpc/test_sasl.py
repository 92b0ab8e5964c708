"""Handshakes: recorded ones, made-up ones, and the published example of DIGEST-MD5."""

import base64
from collections.abc import Callable
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.connection import AM_PROTOCOL, Call, ClientConnection, Failure, Opaque, SaslFrame, ServerConnection
from hadoop_rpc.errors import LocalProtocolError, LoginRefusedError, RemoteProtocolError
from hadoop_rpc.login import TokenLogin
from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto, TokenProto
from hadoop_rpc.protos.yarn_pb2 import AMRMTokenIdentifierProto
from hadoop_rpc.sasl import DigestMd5Client, SaslRelay, SaslResult, parse_directives


class Recording(Protocol):
    """What conftest.py reads."""

    @property
    def chunks(self) -> list[tuple[str, bytes]]: ...

    @property
    def password(self) -> bytes: ...


Recorded = Callable[[str], Recording]
S = RpcSaslProto
CHALLENGE = b'realm="default",nonce="n1",qop="auth,auth-int,auth-conf",charset=utf-8,algorithm=md5-sess'


def step(state: S.SaslState.ValueType, token: bytes | None = None, *auths: S.SaslAuth) -> SaslFrame:
    return SaslFrame(-33, state, S(state=state, token=token, auths=auths), b"")


def auth(method: str, mechanism: str) -> S.SaslAuth:
    return S.SaslAuth(method=method, mechanism=mechanism)


def relay_all(conversation: list[tuple[str, bytes]]) -> tuple[SaslRelay, list[tuple[str, object]]]:
    """Play a conversation as a relay would see it; return the relay and all events, with who sent them."""
    relay = SaslRelay()
    ends: dict[str, ServerConnection | ClientConnection] = {"client": ServerConnection(), "server": ClientConnection()}
    events: list[tuple[str, object]] = []
    for who, data in conversation:
        for event in ends[who].receive_data(data):
            events.append((who, event))
            if isinstance(event, SaslFrame):
                (relay.from_client if who == "client" else relay.from_server)(event)
            if relay.wrapped:
                for end in ends.values():
                    end.pass_through()
    return relay, events


def test_recorded_login_names_the_attempt(recorded: Recorded) -> None:
    relay, events = relay_all(recorded("am_auth").chunks)
    assert relay.result is not None
    assert (relay.result.method, relay.result.mechanism) == ("TOKEN", "DIGEST-MD5")
    assert (relay.result.qop, relay.result.wrapped) == ("auth", False)
    assert relay.identifier is not None
    attempt = AMRMTokenIdentifierProto.FromString(relay.identifier).appAttemptId
    assert (attempt.application_id.id, attempt.application_id.cluster_timestamp) == (1, 1795248973339)
    assert attempt.attemptId == 1
    methods = [event.method for _, event in events if isinstance(event, Call)]
    assert methods == ["registerApplicationMaster", *["allocate"] * 3, "finishApplicationMaster"]
    [failure] = [event for _, event in events if isinstance(event, Failure)]
    assert failure.exception_class.endswith("InvalidApplicationMasterRequestException") and not failure.fatal


@pytest.mark.parametrize(("name", "qop"), [("am_integrity", "auth-int"), ("am_privacy", "auth-conf")])
def test_recorded_wrapped_frames_pass_untouched(recorded: Recorded, name: str, qop: str) -> None:
    conversation = recorded(name).chunks
    relay, events = relay_all(conversation)
    assert relay.result is not None and (relay.result.qop, relay.result.wrapped) == (qop, True)
    for side in ("client", "server"):
        passed = b"".join(e.data if isinstance(e, Opaque) else e.raw for who, e in events if who == side)  # type: ignore[attr-defined]
        assert passed == b"".join(data for who, data in conversation if who == side)
    assert sum(isinstance(event, Opaque) for _, event in events) > 8


def test_recorded_refusal_is_fatal(recorded: Recorded) -> None:
    relay, events = relay_all(recorded("am_wrong_password").chunks)
    assert not relay.done and relay.identifier is not None
    last = events[-1][1]
    assert isinstance(last, Failure)
    assert (last.call_id, last.fatal, last.code) == (-33, True, 15)
    assert last.exception_class == "javax.security.sasl.SaslException"


def test_digest_of_the_recorded_login(recorded: Recorded) -> None:
    """Given the same nonces and password, our response is the one that the Java client sent."""
    recording = recorded("am_auth")
    _, events = relay_all(recording.chunks)
    steps = [event.message for _, event in events if isinstance(event, SaslFrame)]
    sent = parse_directives(steps[2].token)
    client = DigestMd5Client(base64.b64decode(sent["username"]), recording.password, cnonce=sent["cnonce"])
    assert parse_directives(client.respond(steps[1].auths[0].challenge)) == sent
    client.check(steps[3].token)


def test_kerberos_is_opaque_and_so_wrapped() -> None:
    relay = SaslRelay()
    kerberos = auth("KERBEROS", "GSSAPI")
    assert relay.from_client(step(S.NEGOTIATE)) is None
    assert relay.from_server(step(S.NEGOTIATE, None, auth("TOKEN", "DIGEST-MD5"), kerberos)) is None
    assert relay.from_client(step(S.INITIATE, b"\x60\x82", kerberos)) is None
    for _ in range(3):
        assert relay.from_server(step(S.CHALLENGE, b"\x01")) is None
        assert relay.from_client(step(S.RESPONSE, b"\x02")) is None
    assert relay.from_server(step(S.SUCCESS)) == SaslResult("KERBEROS", "GSSAPI", None, None, True)
    assert relay.wrapped and relay.done


def test_challenge_after_an_empty_initiate() -> None:
    relay = SaslRelay()
    digest = DigestMd5Client(b"id", b"pw", cnonce="c")
    relay.from_client(step(S.NEGOTIATE))
    relay.from_server(step(S.NEGOTIATE, None, auth("TOKEN", "DIGEST-MD5")))
    relay.from_client(step(S.INITIATE, b"", auth("TOKEN", "DIGEST-MD5")))
    relay.from_server(step(S.CHALLENGE, CHALLENGE))
    relay.from_client(step(S.RESPONSE, digest.respond(CHALLENGE)))
    assert relay.identifier == b"id" and not relay.done
    result = relay.from_server(step(S.SUCCESS, b"rspauth=x"))
    assert result == SaslResult("TOKEN", "DIGEST-MD5", b"id", "auth", False)


def test_simple_is_chosen_or_decreed() -> None:
    simple = SaslResult("SIMPLE", "", None, None, False)
    chosen = SaslRelay()
    chosen.from_client(step(S.NEGOTIATE))
    chosen.from_server(step(S.NEGOTIATE, None, auth("SIMPLE", "")))
    assert chosen.from_client(step(S.INITIATE, None, auth("SIMPLE", ""))) == simple
    decreed = SaslRelay()
    decreed.from_client(step(S.NEGOTIATE))
    assert decreed.from_server(step(S.SUCCESS)) == simple


def test_an_unknown_choice_is_offered_again() -> None:
    relay = SaslRelay()
    relay.from_client(step(S.INITIATE, b"", auth("PLAIN", "PLAIN")))
    relay.from_server(step(S.NEGOTIATE, None, auth("SIMPLE", "")))
    assert relay.from_client(step(S.INITIATE, None, auth("SIMPLE", ""))) is not None


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([("client", step(S.RESPONSE, b"x"))], "the client sent RESPONSE, expected was the client's first message"),
        ([("server", step(S.NEGOTIATE))], "the server sent NEGOTIATE, expected was the client's first message"),
        ([("client", step(S.NEGOTIATE))] * 2, "the client sent NEGOTIATE, expected was the server's offer"),
        ([("client", step(S.NEGOTIATE)), ("server", step(S.CHALLENGE))], "the server sent CHALLENGE"),
        (
            [("client", step(S.NEGOTIATE)), ("server", step(S.SUCCESS)), ("client", step(S.WRAP))],
            "the client sent WRAP",
        ),
        ([("client", step(S.INITIATE, b""))], "the client chose 0 methods instead of 1"),
        ([("client", step(S.INITIATE, b"qop=auth", auth("TOKEN", "DIGEST-MD5")))], "response has no username"),
        ([("client", step(S.INITIATE, b'username="?"', auth("TOKEN", "DIGEST-MD5")))], "username is not base64"),
        ([("client", step(S.INITIATE, b'username="a', auth("TOKEN", "DIGEST-MD5")))], "no name=value at byte 0 of 11"),
    ],
)
def test_bad_handshakes_are_named(steps: list[tuple[str, SaslFrame]], text: str) -> None:
    relay = SaslRelay()
    with pytest.raises(RemoteProtocolError, match=text):
        for who, frame in steps:
            (relay.from_client if who == "client" else relay.from_server)(frame)


def test_directives() -> None:
    assert parse_directives(b'a=1, B="x,\\"y\\"" ,c=,a=2') == {"a": "1", "b": 'x,"y"', "c": ""}
    assert parse_directives(b"") == {}


@given(st.binary(max_size=60))
def test_directives_of_garbage(token: bytes) -> None:
    try:
        assert isinstance(parse_directives(token), dict)
    except RemoteProtocolError as error:
        assert "DIGEST-MD5" in str(error)


@pytest.mark.parametrize(
    ("challenge", "error", "text"),
    [
        (b'realm="default"', RemoteProtocolError, "challenge has no nonce"),
        (b'nonce="n",qop="auth-conf"', LocalProtocolError, "the server offers qop=auth-conf.*hadoop.rpc.protection"),
    ],
)
def test_challenges_that_cannot_be_answered(challenge: bytes, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        DigestMd5Client(b"i", b"p").respond(challenge)


def test_nonces_of_two_logins_differ() -> None:
    first, second = (parse_directives(DigestMd5Client(b"i", b"p").respond(CHALLENGE)) for _ in range(2))
    assert first["cnonce"] != second["cnonce"]
    assert first["response"] != second["response"]


def test_token_login_step_by_step() -> None:
    client, server = ClientConnection(), ServerConnection()
    token = TokenProto(identifier=b"id", password=b"pw", kind="k", service="s")
    login = TokenLogin(client, AM_PROTOCOL, token=token, cnonce="c")
    [_, negotiate] = server.receive_data(login.start())
    assert isinstance(negotiate, SaslFrame) and negotiate.state == S.NEGOTIATE and not login.done
    offer = S(state=S.NEGOTIATE, auths=[auth("KERBEROS", "GSSAPI"), auth("TOKEN", "DIGEST-MD5")])
    offer.auths[1].challenge = CHALLENGE
    [event] = client.receive_data(server.sasl(offer))
    [initiate] = server.receive_data(login.handle(event))
    assert isinstance(initiate, SaslFrame) and initiate.message.auths == [auth("TOKEN", "DIGEST-MD5")]
    twin = DigestMd5Client(b"id", b"pw", cnonce="c")
    assert initiate.message.token == twin.respond(CHALLENGE)
    rspauth = twin._expected or ""
    [event] = client.receive_data(server.sasl(S(state=S.SUCCESS, token=f"rspauth={rspauth}".encode())))
    assert login.handle(event) == client.context(AM_PROTOCOL)
    assert login.done


def test_token_login_that_ends_badly() -> None:
    client, server = ClientConnection(), ServerConnection()
    token = TokenProto(identifier=b"id", password=b"pw", kind="k", service="s")

    def login(message: S) -> bytes:
        [event] = client.receive_data(server.sasl(message))
        return TokenLogin(client, AM_PROTOCOL, token=token).handle(event)

    with pytest.raises(RemoteProtocolError, match="wrong rspauth"):
        login(S(state=S.SUCCESS, token=b"rspauth=0"))
    with pytest.raises(LoginRefusedError, match="offers KERBEROS/GSSAPI, this client TOKEN/DIGEST-MD5"):
        login(S(state=S.NEGOTIATE, auths=[auth("KERBEROS", "GSSAPI")]))
    with pytest.raises(RemoteProtocolError, match="SASL state 2 from the server"):
        login(S(state=S.INITIATE))
    refusal = server.error(step(S.INITIATE), "InvalidToken", "expired", fatal=True, code=15)
    with pytest.raises(LoginRefusedError, match="login refused with InvalidToken: expired"):
        TokenLogin(client, AM_PROTOCOL, token=token).handle(client.receive_data(refusal)[0])
    with pytest.raises(LocalProtocolError, match="either a user or a token"):
        TokenLogin(client, AM_PROTOCOL)


def test_simple_login_is_done_at_once() -> None:
    client, server = ClientConnection(), ServerConnection()
    login = TokenLogin(client, "proto", user="bob")
    events = server.receive_data(login.start())
    assert login.done
    assert [type(event).__name__ for event in events] == ["Preamble", "ConnectionContext"]
