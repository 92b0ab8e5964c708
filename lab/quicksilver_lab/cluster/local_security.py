"""TLS and tokens for the REST of a local cluster's proxy and sidecars: certificates of a CA of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quicksilver.common.http.tokens import Role, add_token, read_tokens
from quicksilver_lab.cluster.spec import MASTER, NodeAddresses

_PROXY: Final = "proxy"


class LocalSecurity:
    """The files, in a folder of their own; created when they are missing."""

    def __init__(self, folder: Path) -> None:
        from quicksilver.common.http.certs import (  # imports cryptography, which is slow
            make_ca,
            make_certificate,
        )

        self.folder, self._make = folder, make_certificate
        self.ca, self.token_file = folder / "ca.crt", folder / "tokens"
        if not self.ca.exists():
            make_ca(folder, "local")
            make_certificate(folder, _PROXY, [MASTER, "localhost"])
            for role in (Role.ADMIN, Role.READ):
                add_token(self.token_file, role)

    def proxy(self) -> dict[str, str]:
        """Return the proxy's section `security`."""
        return self._section(_PROXY)

    def node(self, node: NodeAddresses) -> dict[str, str]:
        """Return the section `security` of a node's sidecar."""
        if not (self.folder / f"{node.name}.crt").exists():
            self._make(self.folder, node.name, list(dict.fromkeys((node.rpc.host, node.host, node.name))))
        return self._section(node.name)

    def headers(self, role: Role) -> dict[str, str]:
        """Return the headers of a caller with a token of `role`."""
        return {"Authorization": f"Bearer {read_tokens(self.token_file, 'tokens').first([role])}"}

    def _section(self, stem: str) -> dict[str, str]:
        return {
            "token_file": str(self.token_file),
            "tls_cert": str(self.folder / f"{stem}.crt"),
            "tls_key": str(self.folder / f"{stem}.key"),
            "tls_ca": str(self.ca),
        }
