"""Which runs a study has: systems, settings that are tried, seeds. Nothing is run before all settings are right."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, NamedTuple

from policies.base import SLOTS
from policies.config.policy_set import Policies
from policies.config.presets import laid_over
from policies.config.schema import PolicySet
from policies.config.validation import validate
from policies.errors import SettingsMistakesError, close_to
from quicksilver.common.errors import QuicksilverError
from quicksilver.simulator.naming import ONLY_G, ONLY_G_NAME, policies_name
from quicksilver.simulator.systems import SYSTEMS, SystemSettings, load

POLICIES: Final = "policies"
"""The field of a system's settings that takes the section of this name of quicksilver.yaml."""
CUTOFF: Final = "cutoff_s"
"""The field of a system's settings that tells short from long jobs by their tasks' mean duration."""
PRODUCT: Final = "quicksilver"
STOCK: Final = ("yarn_capacity", "yarn_fair", "opportunistic")
"""What Hadoop has to choose from: `PRODUCT` is always compared with all of them."""
"""The system that gets a base line of its own."""
_POLICY: Final = "policy"
_BRACKETS: Final = {"[": "]", "{": "}"}


class StudyError(QuicksilverError):
    """A study that cannot be run as it was asked for."""


class SweepChoice(NamedTuple):
    """A setting, `place.k` or `eagle.probe_ratio`, and the values that it takes."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """A system with settings. label: as tables and plots name it."""

    label: str
    system: str
    place: str
    """Where the system is, `module:SYSTEM`."""
    overrides: Mapping[str, Any] = field(hash=False)
    """What was set of the settings; all else has its default."""
    settings: Mapping[str, Any] = field(hash=False)
    """All of them, as JSON."""
    varied: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The values of what is swept, by the names under which they were asked for."""

    @property
    def key(self) -> str:
        """What its runs are kept under: equal for equal settings, whatever the label."""
        return json.dumps([self.system, self.settings], sort_keys=True, separators=(",", ":"))


class Case(NamedTuple):
    """One run."""

    variant: Variant
    seed: int

    @property
    def key(self) -> str:
        """What the run is kept under."""
        return f"{self.variant.key} {self.seed}"


def value_of(text: str) -> Any:
    """Return a value as JSON has it (10, 0.5, true, null, [1, 2], {"k": 3}); all else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def split(text: str) -> list[str]:
    """Return what stands between commas, other than those within brackets or quotes."""
    parts, depth, quoted = [""], 0, False
    for char in text:
        quoted ^= char == '"'
        depth += 0 if quoted else (char in _BRACKETS) - (char in _BRACKETS.values())
        if char == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def choice(text: str, option: str, several: bool = True) -> SweepChoice:
    """Return KEY=VALUE[,VALUE...] as a choice. Raises StudyError, naming the option."""
    name, sign, values = text.partition("=")
    if not sign or not name.strip() or not values.strip():
        form = "KEY=VALUE,VALUE..., as in place.k=10,20,50" if several else "KEY=VALUE, as in place.k=10"
        raise StudyError(f"{text!r} sets nothing", place=option, remedy=f"write {form}")
    texts = split(values) if several else [values.strip()]
    if "" in texts:
        raise StudyError(f"{text!r} has an empty value", place=option, remedy="leave out the comma that is too much")
    return SweepChoice(name.strip(), tuple({json.dumps(value): value for value in map(value_of, texts)}.values()))


@dataclass(frozen=True, slots=True)
class SweepWish:
    """What a study is to run, as it was asked for."""

    systems: Sequence[str]
    fixed: Sequence[SweepChoice] = ()
    """One value each."""
    swept: Sequence[SweepChoice] = ()
    """Each value with each value of the others."""
    policies: Mapping[str, Any] | None = None
    """The section of quicksilver.yaml, for systems that take one."""
    cutoff_s: float | None = None
    """For systems that have a setting of this name, unless `fixed` or `swept` sets it."""
    option: str = "--sweep"
    """Where `swept` was asked for."""
    base_line: bool = False
    """Whether `PRODUCT` is compared with STOCK, and with its own world in which everything is guaranteed."""


def variants(plan: SweepWish) -> list[Variant]:
    """Return what to run, by system and then by the values of what is swept, the first named moving slowest.

    A choice holds for each system that has such a setting. Raises StudyError when none has it or a value is wrong,
    UnknownSystemError.
    """
    compares = plan.base_line and PRODUCT in plan.systems
    names = (*(STOCK if compares else ()), *plan.systems)
    systems = {name: load(name).Settings for name in dict.fromkeys(names)}
    for option, choices in (("--set", plan.fixed), (plan.option, plan.swept)):
        for each in choices:
            _whose(each.name, systems, option)
    by_key: dict[str, Variant] = {}
    if compares:
        for variant in _of_system(PRODUCT, systems[PRODUCT], plan, only_g=True):
            by_key.setdefault(variant.key, variant)
    for name, model in systems.items():
        for variant in _of_system(name, model, plan, as_it_is=name not in plan.systems):
            by_key.setdefault(variant.key, variant)
    return list(by_key.values())


def cases(setups: Sequence[Variant], seeds: Sequence[int]) -> list[Case]:
    """Return a run for each seed of each variant; all variants of one seed stand together."""
    return [Case(variant, seed) for seed in seeds for variant in setups]


def _of_system(
    name: str, model: type[SystemSettings], plan: SweepWish, only_g: bool = False, as_it_is: bool = False
) -> Iterator[Variant]:
    """Yield the variants of one system.

    only_g: with everything guaranteed, whatever policies are chosen. as_it_is: with its own policies, likewise.
    """
    base: dict[str, Any] = {}
    if plan.cutoff_s is not None and CUTOFF in model.model_fields:
        base[CUTOFF] = plan.cutoff_s
    if POLICIES in model.model_fields and model.takes_file and plan.policies is not None and not as_it_is:
        base[POLICIES] = plan.policies
    fixed = [(steps, each.values[0]) for each in plan.fixed if (steps := _steps(each.name, name, model))]
    swept = [(each.name, steps, each.values) for each in plan.swept if (steps := _steps(each.name, name, model))]
    if only_g or as_it_is:
        fixed = [each for each in fixed if each[0][0] != POLICIES]
        swept = [each for each in swept if each[1][0] != POLICIES]
    if only_g:
        base[POLICIES] = ONLY_G
    if any(steps[0] == POLICIES for steps, _ in [*fixed, *((steps, None) for _, steps, _ in swept)]):
        base.setdefault(POLICIES, model.model_fields[POLICIES].get_default(call_default_factory=True) or {})
    for values in product(*(values for _, _, values in swept)):
        tried = [(steps, value) for (_, steps, _), value in zip(swept, values, strict=True)]
        varied = {key: value for (key, _, _), value in zip(swept, values, strict=True)}
        overrides = base
        for steps, value in sorted([*fixed, *tried], key=lambda each: each[0][-1] != _POLICY):
            overrides = _with(_with_default(overrides, steps), steps, value)
        settings = _checked(name, model, overrides)
        swept_steps = [steps for _, steps, _ in swept]
        ran = ONLY_G_NAME if only_g else _ran(model, settings, swept_steps)
        parts = (name, ran, *(f"{_short(key, name)}={_shown(value)}" for key, value in varied.items()))
        yield Variant(" ".join(filter(None, parts)), name, SYSTEMS[name], overrides, settings, varied)


def _ran(model: type[SystemSettings], settings: Mapping[str, Any], swept: Sequence[tuple[str, ...]]) -> str:
    """Return which policies a system runs, in words; "" where its own name says it."""
    if not model.named_by_policies:
        return ""
    section = settings[POLICIES]
    default = model.model_fields[POLICIES].get_default(call_default_factory=True)
    own = {} if "preset" in default else json.loads(json.dumps(default))
    return policies_name(section, {steps[1] for steps in swept if steps[0] == POLICIES and len(steps) > 1}, own)


def _short(key: str, system: str) -> str:
    return key.removeprefix(f"{system}.")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _checked(name: str, model: type[SystemSettings], overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    instance, mistakes = validate(model, overrides, (name,))
    if instance is None:
        raise StudyError("\n".join(map(str, mistakes)))
    if overrides.get(POLICIES) is not None and POLICIES in model.model_fields:
        try:
            Policies.load(overrides[POLICIES], None, (name, POLICIES))
        except SettingsMistakesError as error:
            raise StudyError("\n".join(map(str, error.mistakes))) from error
    settings: Mapping[str, Any] = json.loads(instance.model_dump_json())
    return settings


def _steps(key: str, system: str, model: type[SystemSettings]) -> tuple[str, ...]:
    """Return where a key stands in a system's settings; nowhere when it has no such setting.

    `eagle.probe_ratio` is for one system alone; `place` and `place.k` are the policy and its setting where the system
    takes the policies of quicksilver.yaml.
    """
    first, *rest = key.split(".")
    if first == system:
        first, *rest = rest or [""]
    elif first in SYSTEMS:
        return ()
    if first in model.model_fields:
        return (first, *rest)
    if first in SLOTS and POLICIES in model.model_fields:
        return (POLICIES, first, "settings", *rest) if rest else (POLICIES, first, _POLICY)
    return ()


def _whose(key: str, systems: Mapping[str, type[SystemSettings]], option: str) -> None:
    """Raises StudyError when no system has the setting."""
    if any(_steps(key, name, model) for name, model in systems.items()):
        return
    known = {name for model in systems.values() for name in model.model_fields}
    if any(POLICIES in model.model_fields for model in systems.values()):
        known |= {f"{slot}.SETTING" for slot in SLOTS}
    problem = f"{' and '.join(systems)} {'has' if len(systems) == 1 else 'have'} no setting '{key}'"
    raise StudyError(problem, place=option, remedy=close_to(key, sorted(known)))


def _with_default(overrides: Mapping[str, Any], steps: Sequence[str]) -> Mapping[str, Any]:
    """Name the product's default policy where a setting is for a slot of which nothing is said."""
    first, slot, *rest = (*steps, "")
    if first != POLICIES or rest[:1] != ["settings"] or slot in laid_over(overrides[POLICIES]) or slot == "route":
        return overrides
    default = PolicySet.model_fields[slot].get_default()
    entry = default[0] if isinstance(default, tuple) else default
    return _with(overrides, (POLICIES, slot, _POLICY), entry.policy)


def _with(mapping: Mapping[str, Any], steps: Sequence[str], value: Any) -> dict[str, Any]:
    """Return `mapping` with a value at a place; what is on the way and no mapping is replaced by one.

    A policy comes without the settings of the one before it. `route` is the first of `policies.routes`.
    """
    first, *rest = steps
    if not rest:
        return {first: value} if first == _POLICY else {**mapping, first: value}
    if first == "route":
        route, *others = mapping.get("routes") or [{}]
        return {**mapping, "routes": [_with(route, rest, value), *others]}
    inner = mapping.get(first)
    return {**mapping, first: _with(inner if isinstance(inner, Mapping) else {}, rest, value)}
