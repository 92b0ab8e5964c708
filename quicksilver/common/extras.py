"""Packages that only some hosts need: extras of the distribution. Packages, archive and images have them all."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

EXTRAS: Final = {
    "alembic": "proxy",
    "cryptography": "commands",
    "docker": "docker",
    "fastavro": "avro",
    "jinja2": "proxy",
    "psycopg": "postgres",
    "pyarrow": "parquet",
    "rich": "commands",
}
"""By the package that is imported, the extra that brings it."""


def missing(package: str) -> str:
    """Return how to bring a package of an extra that is not installed; "" when it is."""
    return "" if find_spec(package) is not None else remedy(package)


def remedy(package: str) -> str:
    """Return how to bring a package of an extra."""
    return f"run pip install 'yarn-quicksilver[{EXTRAS[package]}]'"
