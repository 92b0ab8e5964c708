"""Selects the new policies that a running sidecar can apply."""

from __future__ import annotations

from policies.config.policy_set import Policies
from sidecar.node.sharing import Sharing


def takeable(new: Policies, old: Policies, sharing: Sharing) -> tuple[Policies, list[str]]:
    """Return the policies that apply from now on, and the parts of `new` that cannot apply, with the reason.

    Whether containers are shrunk at all is fixed when the sidecar starts, because the resizer is chosen then.
    """
    shrinks, before = new.node.shrinking() is not None, old.node.shrinking() is not None
    if shrinks == before or (sharing.las is None and not shrinks):
        return new, []
    old_name, new_name = old.policy_name("preempt"), new.policy_name("preempt")
    why = "it chooses its resizer at its start" if shrinks else "it restores shrunk containers at its end"
    return new.keeping("preempt", old), [f"policies.preempt stays {old_name}: {new_name} needs a restart ({why})"]
