import io
import json
import logging

import pytest
import structlog

from quicksilver.common.process.logs import configure_logs, get_logger


@pytest.fixture(autouse=True)
def _restored() -> object:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_key_value_lines_carry_ids() -> None:
    out = io.StringIO()
    configure_logs(stream=out)
    get_logger("rm_proxy.service.server").bind(container="container_1").info("granted", node="n1:1", why="two words")
    line = out.getvalue()
    assert "level=info logger=rm_proxy.service.server event=granted container=container_1" in line
    assert 'why="two words"' in line and line.endswith("\n")


def test_json_lines_and_other_libraries_in_the_same_form() -> None:
    out = io.StringIO()
    configure_logs(as_json=True, stream=out)
    logging.getLogger("library").warning("disk %s", "full")
    get_logger("ours").error("failed", exc_info=ValueError("why"))
    first, second = map(json.loads, out.getvalue().splitlines())
    assert (first["event"], first["level"], first["logger"]) == ("disk full", "warning", "library")
    assert second["event"] == "failed" and "ValueError: why" in second["exception"]


def test_levels_hide_and_keys_with_blanks_survive() -> None:
    out = io.StringIO()
    configure_logs(level="warning", stream=out)
    get_logger("a").info("hidden")
    get_logger("a").warning("shown", **{"two words": 1})
    assert "hidden" not in out.getvalue() and "two_words=1" in out.getvalue()
    with pytest.raises(ValueError, match="'loud' is no log level; take one of debug, info"):
        configure_logs(level="loud", stream=out)
