"""Exceptions with which the ResourceManager refuses an allocate call, by their Java classes."""

from __future__ import annotations

from typing import Final

NOT_REGISTERED: Final = "org.apache.hadoop.yarn.exceptions.ApplicationMasterNotRegisteredException"
"""The application master has to register again."""
WRONG_ID: Final = "org.apache.hadoop.yarn.exceptions.InvalidApplicationMasterRequestException"
"""The response id is neither that of the last answer nor the one before."""
UNKNOWN_PROTOCOL: Final = "org.apache.hadoop.ipc.RpcNoSuchProtocolException"
"""The ResourceManager takes no containers of distributed schedulers."""
FORBIDDEN: Final = "org.apache.hadoop.security.authorize.AuthorizationException"
"""Our answer to an application master that speaks the protocol of distributed schedulers itself."""
NOT_OURS: Final = frozenset(
    (
        "org.apache.hadoop.ipc.StandbyException",
        "org.apache.hadoop.ipc.RetriableException",
        "org.apache.hadoop.ipc.RpcServerException",
        "org.apache.hadoop.security.AccessControlException",
        "org.apache.hadoop.security.token.SecretManager$InvalidToken",
        "org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException",
        WRONG_ID,
    )
)
"""Refusals that have nothing to do with what the call asks for."""
