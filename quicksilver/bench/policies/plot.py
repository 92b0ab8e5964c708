"""Effects with their confidence intervals: `python -m quicksilver.bench.policies.plot RESULT.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

_SHOWN: Final = {
    "tasks_per_s": "task throughput",
    "wait_p95_s": "p95 of task waits",
    "completion_mean_s": "mean job completion",
    "kills_per_1000": "kills per 1000 tasks",
    "again_per_1000": "shed or killed per 1000 tasks",
}


def draw(effects: Mapping[str, Mapping[str, Mapping[str, Any]]], path: Path, title: str) -> None:
    """Write a PNG: one panel for each metric, one line for each policy."""
    import matplotlib  # only this needs it, and it takes its time

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(effects)[::-1]
    shown = {key: label for key, label in _SHOWN.items() if all(key in effects[name] for name in names)}
    figure, axes = pyplot.subplots(1, len(shown), figsize=(4 * len(shown), 1.5 + 0.3 * len(names)), sharey=True)
    for axis, (key, label) in zip(axes if len(shown) > 1 else [axes], shown.items(), strict=True):
        found = [effects[name][key] for name in names]
        ratio = all(one["kind"] == "ratio" for one in found)
        for at, one in enumerate(found):
            axis.plot([one["ci_low"], one["ci_high"]], [at, at], color="tab:blue")
            axis.plot(one["effect"], at, "o", color="tab:blue")
        axis.axvline(1.0 if ratio else 0.0, color="black", linewidth=0.8)
        axis.set_title(label)
        axis.set_xlabel("ratio to the baseline" if ratio else "difference from the baseline")
        axis.set_yticks(range(len(names)), names)
        axis.grid(alpha=0.3)
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def draw_all(result: Mapping[str, Any], path: Path) -> list[Path]:
    """Draw both parts of a result, as far as they were run, beside `path`; return what was written."""
    written = []
    for part in ("virtual", "real"):
        found = result.get(part, {}).get("effects")
        if found:
            picture = path.with_name(f"{path.stem}-{part}.png")
            draw(found, picture, f"{part}: each policy against the baseline, 95 % intervals ({result['commit']})")
            written.append(picture)
    return written


@click.command()
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(result: Path) -> None:
    """Draw a result anew, beside its file."""
    for written in draw_all(json.loads(result.read_text()), result):
        click.echo(written)


if __name__ == "__main__":
    main()
