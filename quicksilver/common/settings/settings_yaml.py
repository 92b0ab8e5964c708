"""Settings as text that can be pasted into quicksilver.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any

from ruamel.yaml import YAML


def settings_yaml(content: Mapping[str, Any]) -> str:
    """Return sections of quicksilver.yaml as YAML, one key a line, without a newline at the end."""
    writer, text = YAML(typ="safe", pure=True), StringIO()
    writer.default_flow_style = False
    writer.dump(dict(content), text)
    return text.getvalue().rstrip()
