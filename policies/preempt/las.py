"""Run the least attained service first, and shrink the containers that give way (Kairos, thesis §4.3.2 and §4.4).

CPU never needs a kill then. Memory does when nothing else frees it: shrunk containers keep theirs.
"""

from __future__ import annotations

from policies.base import Policy
from policies.common.shrinking import Shrinking, victims


class Las(Shrinking):
    """Settings of las."""


POLICY = Policy("las", Las, victims)
