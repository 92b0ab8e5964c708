"""What the dashboard has of its own in the frame of all pages: its navigation, and who may log in."""

from __future__ import annotations

from typing import Final

from quicksilver.common.web.pages import WebSite

SITE: Final = WebSite(
    package="rm_proxy.ui",
    sections=(
        ("", "Cluster"),
        ("nodes", "Nodes"),
        ("applications", "Applications"),
        ("queues", "Queues"),
        ("policies", "Policies"),
        ("health", "Health"),
        ("docs/", "Docs"),
    ),
    health="v1/health",
    login_words="the role read, or admin for actions",
    login_example="read",
)
