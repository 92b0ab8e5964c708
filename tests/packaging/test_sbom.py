"""The bill of materials names what a node gets, and says it as CycloneDX has it."""

from __future__ import annotations

import json
from typing import Any, Final

from packaging.utils import canonicalize_name

from tests.packaging.environment_wheels import locked_for_here
from tests.packaging.test_dependencies import MAIN
from tests.paths import ROOT

BILL: Final[dict[str, Any]] = json.loads((ROOT / "sbom.cdx.json").read_text())


def test_it_names_each_locked_package_and_no_other() -> None:
    """`make lock` writes it anew, with Python 3.11; markers of other versions and platforms leave packages out."""
    locked = locked_for_here(python_version="3.11", python_full_version="3.11.9")
    named = {(canonicalize_name(part["name"]), part["version"]) for part in BILL["components"]}
    assert named == {(canonicalize_name(one.name), str(one.specifier).removeprefix("==")) for one in locked}


def test_each_package_has_an_address_and_most_a_licence() -> None:
    for part in BILL["components"]:
        name, _, version = part["purl"].partition("?")[0].removeprefix("pkg:pypi/").partition("@")
        assert (canonicalize_name(name), version) == (canonicalize_name(part["name"]), part["version"])
    assert {part["name"] for part in BILL["components"] if not part.get("licenses")} <= {"protobuf"}


def test_it_is_of_this_program() -> None:
    subject = BILL["metadata"]["component"]
    assert (BILL["bomFormat"], BILL["specVersion"]) == ("CycloneDX", "1.6")
    assert (subject["name"], subject["version"]) == (MAIN["name"], MAIN["version"])
    direct = next(row["dependsOn"] for row in BILL["dependencies"] if row["ref"] == subject["bom-ref"])
    assert {"requests", "sqlalchemy"} <= {canonicalize_name(ref.partition("==")[0]) for ref in direct}
