"""The NodeManager's half of a token login (SASL TOKEN / DIGEST-MD5, RFC 2831), and the signatures of tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

from hadoop_rpc.errors import RemoteProtocolError
from hadoop_rpc.events import SaslFrame
from hadoop_rpc.protos.rpc_pb2 import RpcSaslProto
from hadoop_rpc.sasl import parse_directives

_REALM: Final = "default"


class BadTokenError(RemoteProtocolError):
    """A login with a token that this ResourceManager did not sign."""


def signature(identifier: bytes, key: bytes) -> bytes:
    """Return the password of a token, as Hadoop's SecretManager makes it from its master key."""
    return hmac.digest(key, identifier, "sha1")


class NodeLogin:
    """One login; `handle` takes the client's steps, `identifier` is the token's once `done`.

    key: the NMToken master key, as the ResourceManager told it.
    """

    def __init__(self, key: bytes, nonce: str | None = None) -> None:
        self.done = False
        self.identifier = b""
        self._key = key
        self._nonce = secrets.token_hex(16) if nonce is None else nonce

    def handle(self, frame: SaslFrame) -> RpcSaslProto:
        """Return the answer to one step. Raises BadTokenError, RemoteProtocolError for a step out of place."""
        if self.done:
            raise RemoteProtocolError("a login that is over goes on")
        if frame.state == RpcSaslProto.NEGOTIATE:
            return self._offer()
        if frame.state == RpcSaslProto.INITIATE:
            return self._verdict(frame.message.token)
        raise RemoteProtocolError(f"out of place in a login: SASL state {frame.state} from the client")

    def _offer(self) -> RpcSaslProto:
        challenge = f'realm="{_REALM}",nonce="{self._nonce}",qop="auth",charset=utf-8,algorithm=md5-sess'
        offer = RpcSaslProto(state=RpcSaslProto.NEGOTIATE)
        offer.auths.add(
            method="TOKEN", mechanism="DIGEST-MD5", protocol="", serverId=_REALM, challenge=challenge.encode()
        )
        return offer

    def _verdict(self, token: bytes) -> RpcSaslProto:
        directives = parse_directives(token)
        username = directives.get("username", "")
        try:
            identifier = base64.b64decode(username, validate=True)
        except ValueError as error:
            raise RemoteProtocolError(f"bad DIGEST-MD5 message: the username is not base64 ({error})") from error
        password = base64.b64encode(signature(identifier, self._key)).decode()
        expected, proof = (_digest(directives, username, password, self._nonce, verb) for verb in ("AUTHENTICATE", ""))
        if not hmac.compare_digest(directives.get("response", ""), expected):
            raise BadTokenError("the NMToken is not signed with the key that the ResourceManager gave this node")
        self.identifier, self.done = identifier, True
        return RpcSaslProto(state=RpcSaslProto.SUCCESS, token=f"rspauth={proof}".encode())


def _digest(directives: dict[str, str], username: str, password: str, nonce: str, verb: str) -> str:
    cnonce, count, uri = directives.get("cnonce", ""), directives.get("nc", ""), directives.get("digest-uri", "")
    secret = hashlib.md5(f"{username}:{directives.get('realm', '')}:{password}".encode()).digest()
    a1 = hashlib.md5(secret + f":{nonce}:{cnonce}".encode()).hexdigest()
    a2 = hashlib.md5(f"{verb}:{uri}".encode()).hexdigest()
    return hashlib.md5(f"{a1}:{nonce}:{count}:{cnonce}:auth:{a2}".encode()).hexdigest()
