"""The picture of the packages shows the code as it is."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location

from tests.paths import ROOT


def test_the_picture_is_up_to_date() -> None:
    spec = spec_from_file_location("packages_picture", ROOT / "scripts" / "packages_picture.py")
    assert spec is not None and spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PICTURE.read_text() == script.picture(), f"run {sys.executable} scripts/packages_picture.py"
