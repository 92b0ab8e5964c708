"""SASL in Hadoop IPC: watches a relayed handshake, and logs in with a token (DIGEST-MD5, RFC 2831)."""

import base64
import binascii
import enum
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from hadoop_rpc.errors import LocalProtocolError, RemoteProtocolError
from hadoop_rpc.events import SaslFrame
from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto

__all__ = ["DigestMd5Client", "SaslRelay", "SaslResult", "parse_directives"]

_DIRECTIVE = re.compile(
    rb'\s*([A-Za-z0-9!#$%&\'*+.^_`|~-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]*))\s*(?:,|$)', re.DOTALL
)
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)


def parse_directives(token: bytes) -> dict[str, str]:
    """Return the name=value pairs of a DIGEST-MD5 message, names in lower case; of a doubled name the first counts.

    Raises RemoteProtocolError when `token` is no such list.
    """
    directives: dict[str, str] = {}
    at = 0
    while at < len(token):
        match = _DIRECTIVE.match(token, at)
        if match is None:
            raise RemoteProtocolError(f"bad DIGEST-MD5 message: no name=value at byte {at} of {len(token)}")
        name, quoted, plain = match.groups()
        value = plain if quoted is None else _ESCAPE.sub(rb"\1", quoted)
        directives.setdefault(name.decode("ascii").lower(), value.decode("utf-8", "replace"))
        at = match.end()
    return directives


@dataclass(frozen=True, slots=True)
class SaslResult:
    """Result of a successful handshake.

    method, mechanism: as Hadoop names them, for example TOKEN and DIGEST-MD5, KERBEROS and GSSAPI, SIMPLE and "".
    identifier: the token identifier of a TOKEN login, else None. qop: auth, auth-int, auth-conf, or None when unknown.
    wrapped: later frames are, or may be, encrypted or signed; pass them through unchanged.
    """

    method: str
    mechanism: str
    identifier: bytes | None
    qop: str | None
    wrapped: bool


class _Turn(enum.Enum):
    """The message that must come next."""

    OPENING = "the client's first message"
    OFFER = "the server's offer"
    CHOICE = "the client's choice"
    VERDICT = "the server's challenge or success"
    ANSWER = "the client's response"
    DONE = "nothing, the handshake is over"


class SaslRelay:
    """Watches both directions of a relayed handshake; it changes nothing and checks no secret.

    Pass it every SaslFrame as it is relayed. The message that ends the handshake successfully sets `result`. A refusal
    is not a SASL message but a Failure: relay it; the server closes the connection.
    """

    __slots__ = ("_identifier", "_mechanism", "_method", "_qop", "_turn", "result")

    def __init__(self) -> None:
        self._turn = _Turn.OPENING
        self._method = ""
        self._mechanism = ""
        self._identifier: bytes | None = None
        self._qop: str | None = None
        self.result: SaslResult | None = None

    @property
    def identifier(self) -> bytes | None:
        """The token identifier that the client named; unproven until `result` is set."""
        return self._identifier

    @property
    def done(self) -> bool:
        """Whether the handshake succeeded."""
        return self.result is not None

    @property
    def wrapped(self) -> bool:
        """Whether frames after the handshake must pass unchanged."""
        return self.result is not None and self.result.wrapped

    def from_client(self, frame: SaslFrame) -> SaslResult | None:
        """Handle a message of the client; return the result if it ends the handshake (the choice of SIMPLE does)."""
        state, message = frame.state, frame.message
        if state == RpcSaslProto.NEGOTIATE and self._turn is _Turn.OPENING:
            self._turn = _Turn.OFFER
        elif state == RpcSaslProto.INITIATE and self._turn in (_Turn.OPENING, _Turn.CHOICE):
            return self._choose(message)
        elif state == RpcSaslProto.RESPONSE and self._turn is _Turn.ANSWER:
            self._turn = _Turn.VERDICT
            self._read_token(message.token)
        else:
            raise self._unexpected("client", state)
        return None

    def from_server(self, frame: SaslFrame) -> SaslResult | None:
        """Handle a message of the server; return the result if it ends the handshake."""
        state = frame.state
        if state == RpcSaslProto.NEGOTIATE and self._turn in (_Turn.OFFER, _Turn.VERDICT):
            self._turn = _Turn.CHOICE
        elif state == RpcSaslProto.CHALLENGE and self._turn is _Turn.VERDICT:
            self._turn = _Turn.ANSWER
        elif state == RpcSaslProto.SUCCESS and self._turn is _Turn.OFFER:
            self._method = "SIMPLE"
            return self._finish()
        elif state == RpcSaslProto.SUCCESS and self._turn is _Turn.VERDICT:
            return self._finish()
        else:
            raise self._unexpected("server", state)
        return None

    def _choose(self, message: RpcSaslProto) -> SaslResult | None:
        if len(message.auths) != 1:
            raise RemoteProtocolError(f"bad SASL message: the client chose {len(message.auths)} methods instead of 1")
        self._method = message.auths[0].method
        self._mechanism = message.auths[0].mechanism
        if self._method == "SIMPLE":
            return self._finish()
        self._turn = _Turn.VERDICT
        self._read_token(message.token)
        return None

    def _read_token(self, token: bytes) -> None:
        """Read the identifier that the client names; only the first response of DIGEST-MD5 shows one."""
        if self._mechanism != "DIGEST-MD5" or self._identifier is not None or not token:
            return
        directives = parse_directives(token)
        if "username" not in directives:
            raise RemoteProtocolError("bad DIGEST-MD5 message: the client's response has no username")
        self._qop = directives.get("qop", "auth")
        try:
            self._identifier = base64.b64decode(directives["username"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise RemoteProtocolError(f"bad DIGEST-MD5 message: the username is not base64 ({error})") from error

    def _finish(self) -> SaslResult:
        self._turn = _Turn.DONE
        wrapped = self._method != "SIMPLE" and self._qop != "auth"
        self.result = SaslResult(self._method, self._mechanism, self._identifier, self._qop, wrapped)
        return self.result

    def _unexpected(self, side: str, state: int) -> RemoteProtocolError:
        name = RpcSaslProto.SaslState.Name(RpcSaslProto.SaslState.ValueType(state))
        return RemoteProtocolError(f"SASL out of order: the {side} sent {name}, expected was {self._turn.value}")


class DigestMd5Client:
    """The client's half of a token login: DIGEST-MD5 with qop=auth, as Hadoop uses it.

    identifier, password: the two byte strings of the token. cnonce: our nonce, random by default.
    """

    __slots__ = ("_cnonce", "_expected", "_password", "_uri", "_username")

    def __init__(
        self,
        identifier: bytes,
        password: bytes,
        *,
        protocol: str = "",
        server_id: str = "default",
        cnonce: str | None = None,
    ) -> None:
        self._username = base64.b64encode(identifier).decode("ascii")
        self._password = base64.b64encode(password).decode("ascii")
        self._uri = f"{protocol}/{server_id}"
        self._cnonce = secrets.token_hex(16) if cnonce is None else cnonce
        self._expected: str | None = None

    def respond(self, challenge: bytes) -> bytes:
        """Return the response to the server's challenge.

        Raises RemoteProtocolError for a challenge without nonce, LocalProtocolError when it does not offer qop=auth.
        """
        offer = parse_directives(challenge)
        if "nonce" not in offer:
            raise RemoteProtocolError("bad DIGEST-MD5 message: the server's challenge has no nonce")
        offered = [qop.strip() for qop in offer.get("qop", "auth").split(",")]
        if "auth" not in offered:
            raise LocalProtocolError(
                f"the server offers qop={','.join(offered)}, this client supports only auth: "
                "let hadoop.rpc.protection include authentication"
            )
        realm, nonce = offer.get("realm", ""), offer["nonce"]
        response, self._expected = (self._digest(realm, nonce, verb) for verb in ("AUTHENTICATE", ""))
        return (
            f'charset=utf-8,username="{self._username}",realm="{realm}",nonce="{nonce}",nc=00000001,'
            f'cnonce="{self._cnonce}",digest-uri="{self._uri}",maxbuf=65536,response={response},qop=auth'
        ).encode()

    def check(self, final: bytes) -> None:
        """Check the server's last message, which proves that it knows the password. Raises RemoteProtocolError."""
        rspauth = parse_directives(final).get("rspauth", "")
        if self._expected is None or not hmac.compare_digest(rspauth.encode(), self._expected.encode()):
            raise RemoteProtocolError("the server did not prove that it knows the token's password (wrong rspauth)")

    def _digest(self, realm: str, nonce: str, verb: str) -> str:
        secret = hashlib.md5(f"{self._username}:{realm}:{self._password}".encode()).digest()
        a1 = hashlib.md5(secret + f":{nonce}:{self._cnonce}".encode()).hexdigest()
        a2 = hashlib.md5(f"{verb}:{self._uri}".encode()).hexdigest()
        return hashlib.md5(f"{a1}:{nonce}:00000001:{self._cnonce}:auth:{a2}".encode()).hexdigest()
