"""Names and placeholders of ZApps in the form that descriptions have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

_PARAMETERS: Final[Mapping[str, tuple[str, str]]] = {
    "user_name": ("user-name", "Zoe's user_name: the user who runs the application."),
    "execution_id": ("execution-id", "Zoe's execution_id: unique for this run."),
    "execution_name": ("execution-name", "Zoe's execution_name: the name that the user gives to this run."),
    "deployment_name": ("deployment-name", "Zoe's deployment_name."),
}
"""By Zoe's placeholder: the parameter that it becomes, and its description."""
_PLACEHOLDER: Final = re.compile(r"\{(" + "|".join(_PARAMETERS) + r")\}")
_HOST: Final = re.compile(r"\{dns_name#([^}]*)\}")
_LIMIT: Final = 40


class ServiceNames:
    """Names that are unique and have the form of ours: small letters, digits and `-`."""

    def __init__(self, zoe_names: Sequence[str]) -> None:
        self._zoe_names = list(zoe_names)
        self._names: list[str] = []
        for name in zoe_names:
            clean, number = self.clean(name), 2
            while clean in self._names:
                clean = f"{self.clean(name)[: _LIMIT - 4]}-{number}"
                number += 1
            self._names.append(clean)

    @staticmethod
    def clean(name: str) -> str:
        """Return a name in our form; `app` when nothing of it is left."""
        text = re.sub(r"[^a-z0-9]+", "-", name.lower())
        return re.sub(r"^[^a-z]+", "", text)[:_LIMIT].strip("-") or "app"

    def of(self, number: int) -> str:
        """Return the name of the one at a place."""
        return self._names[number]

    def counted(self, name: str) -> tuple[int | None, int]:
        """Return the place of the service that Zoe calls NAME with a counter, and the counter; None when unknown."""
        for number, each in sorted(enumerate(self._zoe_names), key=lambda pair: -len(pair[1])):
            counter = name.removeprefix(each)
            if name.startswith(each) and counter.isdecimal():
                return number, int(counter)
        return None, 0


def placeholders(text: str) -> tuple[str, dict[str, str]]:
    """Return a text with `${parameters.NAME}` in place of Zoe's placeholders, and these parameters' descriptions."""
    parameters = {_PARAMETERS[name][0]: _PARAMETERS[name][1] for name in _PLACEHOLDER.findall(text)}
    return _PLACEHOLDER.sub(lambda match: f"${{parameters.{_PARAMETERS[match[1]][0]}}}", text), parameters


def export_lines(values: Mapping[str, str], names: ServiceNames, after: Sequence[str]) -> tuple[str, list[str]]:
    """Return shell text that sets variables with `{dns_name#..}` in them, and what it could not set.

    The application master gives an instance its own host, and those of the services that it starts after.
    """
    lines, wrong = [], []
    for variable, value in values.items():
        text, bad = _quoted(value, names, after)
        if bad:
            wrong.append(f"{variable}: {{dns_name#{bad}}} is not carried over: it does not start after that service")
        else:
            lines.append(f'export {variable}="{text}"; ')
    return "".join(lines), wrong


def _quoted(value: str, names: ServiceNames, after: Sequence[str]) -> tuple[str, str]:
    """Return a value for double quotes in a shell, and the name in it whose host is not known there or ""."""
    parts: list[str] = []
    at = 0
    for match in _HOST.finditer(value):
        parts.append(_plain(value[at : match.start()]))
        at = match.end()
        if match[1] == "self":
            parts.append("$QUICKSILVER_HOST")
            continue
        number, counter = names.counted(match[1])
        if number is None or names.of(number) not in after:
            return "", match[1]
        variable = names.of(number).upper().replace("-", "_")
        parts.append(
            "$(echo $" + f"{variable}_HOSTS | cut -d, -f{counter + 1})" if counter else f"${{{variable}_HOST}}"
        )
    return "".join((*parts, _plain(value[at:]))), ""


def _plain(text: str) -> str:
    """Return text for double quotes in a shell; parameters stay."""
    return re.sub(r'([\\"`]|\$(?!\{parameters\.))', r"\\\1", text)
