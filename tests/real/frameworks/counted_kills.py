"""Queueable containers that were killed, as the proxy's ledger counts them."""

from quicksilver_lab.cluster.local_daemons import LocalDaemons


def queueable_kills(stack: LocalDaemons, cause: str) -> int:
    """Return how many there were for a cause since the proxy's store was made."""
    items = stack.get("/v1/kills")["items"]
    return sum(row["count"] for row in items if (row["cause"], row["kind"]) == (cause, "Q"))
