"""`quicksilver policy new --goal GOAL`: a commented `policies:` section to begin with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent, wrap
from typing import Any, Final

import click

from policies.config.presets import PRESETS, Preset
from policies.errors import close_to
from quicksilver.common.command_line.groups import Command
from quicksilver.common.errors import SettingsError

_WIDTH: Final = 98
_QUEUES: Final = "{QUEUES}"
"""Stands in a goal's text for the list of YARN queues."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What somebody wants, and the section that gets it; `text` is YAML below `policies:`, without indentation."""

    summary: str
    preset: str
    text: str = f'queues: {_QUEUES}   # YARN queues whose containers may be queueable; "*" for all'
    beside: str = ""
    """What else has to be done for it."""
    good_for: str = ""
    bad_for: str = ""
    """Advice of its own, where its text changes what the preset's advice is about; "": the preset's."""


_MAPREDUCE: Final = f"""\
        queues: {_QUEUES}
        routes:
          # The first rule that matches counts. mercury kills the newest queueable container for a guaranteed one,
          # so frameworks whose containers hold a job's data, and all services, stay guaranteed: no rule matches them.
          - match: {{type: MAPREDUCE}}
            policy: only_q
        """
GOALS: Final[dict[str, Goal]] = {
    "short-jobs": Goal(
        "Short jobs are fast beside long ones, in all queues, without estimates or tuning.",
        "default",
    ),
    "short-jobs-one-queue": Goal(
        "Short jobs are fast in some queues; all other queues stay as they are.",
        "default",
        f"""\
        # Queues that are not listed stay guaranteed: the ResourceManager schedules them as before.
        queues: {_QUEUES}
        """,
        good_for="a first queue of short jobs, beside queues whose jobs must run as before",
        bad_for="jobs of the listed queues whose containers cannot do with less CPU for a while; short jobs of the"
        " other queues, which get no faster",
    ),
    "kill-free": Goal(
        "No container is killed for a guaranteed one: it gets less CPU for a while (least attained service).",
        "default",
        f"""\
        queues: {_QUEUES}
        preempt:
          policy: las
          settings:
            extra: 1          # containers a node that may stand still, each keeps its memory
            quantum_s: 10     # a container that ran this long gives way to one that ran less
        """,
        "Nodes need memory for containers that stand still: `quicksilver install --with sharing`; `help preemption`.",
        good_for="clusters whose jobs lose much when a container is killed",
        bad_for="nodes whose NodeManager has no memory beyond the sidecar's: there a guaranteed container kills"
        " queueable ones",
    ),
    "las": Goal(
        "Least attained service first (Kairos): good for heavy tails whose durations nobody knows.",
        "kairos",
        beside="Nodes need memory for four more containers: `quicksilver install --with sharing`; `help preemption`.",
    ),
    "mercury": Goal("Many short tasks of known durations queue at the nodes (Mercury).", "mercury", _MAPREDUCE),
    "hawk": Goal("Few long jobs beside many short ones; idle nodes steal.", "hawk", _MAPREDUCE),
    "eagle": Goal("As hawk, but no short task waits behind long ones.", "eagle", _MAPREDUCE),
    "apollo": Goal("Tasks go where they should end first, on nodes of different speed.", "apollo", _MAPREDUCE),
    "long-guaranteed": Goal(
        "Tasks known to be long keep YARN's guarantees; short and unknown ones are queueable.",
        "mixed",
        f"""\
        queues: {_QUEUES}
        routes:
          - match: {{type: MAPREDUCE}}      # all other frameworks stay guaranteed
            policy: hybrid_gq
            settings:
              td_s: 10        # tasks expected to run longer than this are guaranteed
              pq: 70          # percent of the others that are queueable
        """,
        good_for="long tasks that must keep YARN's guarantees beside short ones, where jobs of one name are alike",
        bad_for="jobs whose tasks are much longer than those of earlier jobs of the same name: until they end, they"
        " count as short; nodes without memory beyond the sidecar's",
    ),
    "spark-executors": Goal(
        "Spark executors may be queueable; they are never shrunk or killed for room.",
        "default",
        f"""\
        queues: {_QUEUES}
        routes:
          - match: {{type: [MAPREDUCE, SPARK]}}      # all other frameworks stay guaranteed
            policy: only_q
        preempt:
          policy: las           # leaves containers of Spark and Flink alone (its setting by_type)
        """,
        good_for="Spark jobs that can begin with some of their executors, beside short jobs",
        bad_for="Spark jobs that need all executors at once, and streaming: an executor may wait in the queue for long;"
        " route these only_g",
    ),
    "by-night": Goal(
        "Nothing is queueable by day; every night, 20:00 to 6:00, the listed queues may have queueable containers.",
        "default",
        f"""\
        queues: []              # by day: all guaranteed
        alternatives:
          night:
            queues: {_QUEUES}
        windows:
          - name: night
            cron: "0 20 * * *"          # minute hour day month weekday: each night, those of the weekend too
            length_s: 36000             # 20:00 to 6:00
            drain_s: 300                # in the last 5 minutes nothing starts that would run beyond the end
            use: night
        # time_zone: Europe/Berlin      # else that of the machine
        """,
        good_for="nightly batches beside days in which nothing may change",
        bad_for="short jobs of the day, which get no faster; jobs that run on into the morning, whose further"
        " containers are guaranteed",
    ),
    "try-10-percent": Goal(
        "A tenth of the applications gets quicksilver's policies, the others stay as they are.",
        "stock",
        f"""\
        alternatives:
          try:
            preset: default
            queues: {_QUEUES}
        rollout:
          - percent: 10           # chosen by the application's id; raise it step by step
            use: try
        """,
        good_for="a first look at a production cluster: compare the tenth with the others before you raise it",
        bad_for="measuring the gain of the whole cluster: nine of ten applications still schedule as on stock YARN;"
        " jobs whose containers cannot do with less CPU for a while may be in the tenth",
    ),
    "watch-only": Goal(
        "Decide and record, change nothing: see what quicksilver would do.",
        "default",
        f"""\
        mode: shadow              # active when you like what `quicksilver decision list` shows
        queues: {_QUEUES}
        """,
        good_for="seeing what quicksilver would decide on your jobs, with nothing changed",
        bad_for="judging the gain: what is recorded are decisions on a cluster that did not follow them",
    ),
    "off": Goal("Everything stays guaranteed: the ResourceManager schedules as without quicksilver.", "stock", ""),
}


@click.command("new", cls=Command)
@click.option("--goal", metavar="GOAL", help="What you want; without it: list the goals.")
@click.option("--queues", metavar="A,B,...", help="YARN queues whose containers may be queueable; default: all.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write here instead of printing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the goals, or goal and text.")
def new_settings(goal: str | None, queues: str | None, out: Path | None, as_json: bool) -> None:
    """Write a commented `policies:` section for a goal.

    The result is a whole settings file for a proxy that only lacks its addresses; `quicksilver init` writes them too.
    """
    if goal is None:
        _list(as_json)
        return
    text = settings_for(goal, (queues or "*").split(","))
    if as_json:
        click.echo(json.dumps({"goal": goal, "text": text, "file": str(out) if out else None}, indent=2))
    if out is not None:
        write_new(out, text)
        if not as_json:
            click.echo(f"{out}: written; `quicksilver policy check {out}` checks it")
    elif not as_json:
        click.echo(text, nl=False)


def settings_for(name: str, queues: Sequence[str]) -> str:
    """Return the section for a goal, or for a preset by its own name. Raises BadParameter for an unknown one."""
    goal = GOALS.get(name) or _of_preset(name)
    if goal is None:
        raise click.BadParameter(f"unknown goal '{name}'; {close_to(name, list(GOALS))}", param_hint="--goal")
    preset: Preset = PRESETS[goal.preset]  # type: ignore[index]
    good_for, bad_for = goal.good_for or preset.good_for, goal.bad_for or preset.bad_for
    head = [f"Goal {name}: {goal.summary}", f"Good for: {good_for}.", f"Bad for: {bad_for}."]
    head += [f"Besides: {goal.beside}"] if goal.beside else []
    lines = [f"# {line}" for text in head for line in wrap(text, _WIDTH, subsequent_indent="  ")]
    lines += ["policies:", f"  preset: {goal.preset}"]
    lines += ["  # It chooses, and each of these can be set here:"]
    lines += [f"  #   {slot}: {_shown(choice)}" for slot, choice in preset.section.items()]
    if goal.text:
        own = dedent(goal.text).replace(_QUEUES, json.dumps(list(queues) if list(queues) != ["*"] else "*"))
        lines.append(indent(own.rstrip("\n"), "  "))
    return "".join(f"{line}\n" for line in lines)


def _of_preset(name: str) -> Goal | None:
    preset = next((preset for known, preset in PRESETS.items() if known == name), None)
    if preset is None:
        return None
    return Goal(preset.doc, name) if preset.section.get("routes") else Goal(preset.doc, name, "")


def write_new(path: Path, text: str, *, force: bool = False) -> None:
    """Write a settings file. Raises SettingsError when it is there already, or cannot be written."""
    if path.exists() and not force:
        raise SettingsError("is there already", place=str(path), remedy="name another file, or move it away")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        message = f"cannot be written: {error.strerror}"
        raise SettingsError(message, place=str(path), remedy="name a file that this user may write") from error


def _shown(choice: Any) -> str:
    return json.dumps(choice) if not isinstance(choice, str) else f'"{choice}"'


def _list(as_json: bool) -> None:
    if as_json:
        click.echo(
            json.dumps({name: {"what": goal.summary, "preset": goal.preset} for name, goal in GOALS.items()}, indent=2)
        )
        return
    width = max(map(len, GOALS))
    for name, goal in GOALS.items():
        click.echo(f"{name:<{width}}  {goal.summary}")
    click.echo("\n`quicksilver policy new --goal GOAL --out FILE` writes one; a preset's name is a goal as well.")
