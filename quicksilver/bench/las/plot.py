"""CDFs of completion and slowdown of a result, as Figure 4.4 of the thesis: `python -m quicksilver.bench.las.plot
RESULT.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

_AXES: Final = (("completion_s", "job completion, s"), ("slowdown", "slowdown (completion / alone on idle stock YARN)"))
_LABELS: Final = {
    "fifo": "YARN, FIFO",
    "opportunistic": "YARN, opportunistic",
    "kill_newest": "quicksilver, waiting",
    "las": "quicksilver, LAS",
}


def draw(samples: Mapping[str, Mapping[str, list[float]]], path: Path, title: str) -> None:
    """Write a PNG with both CDFs. samples: by mode, `completion_s` and `slowdown` of each job."""
    import matplotlib  # only this needs it, and it takes its time

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(_AXES), figsize=(11, 4.2), sharey=True)
    for axis, (key, label) in zip(axes, _AXES, strict=True):
        for mode, values in samples.items():
            ordered = sorted(values[key])
            shares = [(n + 1) / len(ordered) for n in range(len(ordered))]
            axis.step(ordered, shares, where="post", label=_LABELS.get(mode, mode))
        axis.set_xscale("log")
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("share of jobs")
    axes[0].legend(loc="lower right")
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def samples_of(result: Mapping[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Return what `draw` takes, from a result file's content."""
    alone_s = result["alone_s"]["fifo"]
    found: dict[str, dict[str, list[float]]] = {}
    for mode, run in result["raw"]["modes"].items():
        done = [one for one in run["outcomes"] if one["completion_s"] is not None]
        found[mode] = {
            "completion_s": [one["completion_s"] for one in done],
            "slowdown": [one["completion_s"] / alone_s[one["kind"]] for one in done],
        }
    return found


def title_of(result: Mapping[str, Any]) -> str:
    """Return what stands above the plot."""
    settings = result["settings"]
    return f"{settings['jobs']} jobs on {settings['cores']} cores, load {settings['load']:.2f} ({result['commit']})"


@click.command()
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(result: Path) -> None:
    """Draw a result again, beside its file."""
    content = json.loads(result.read_text())
    path = result.with_suffix(".png")
    draw(samples_of(content), path, title_of(content))
    click.echo(path)


if __name__ == "__main__":
    main()
