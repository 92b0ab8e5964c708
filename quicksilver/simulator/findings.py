"""What a study says, in sentences: how long jobs took against the best stock scheduler, or the first system.

The best one is chosen for each figure by itself, so that no single weak base line makes a system look good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Final

from quicksilver.report.cells import shown
from quicksilver.report.model import ReportEstimate
from quicksilver.simulator.figures import ALL
from quicksilver.simulator.results import better, by_label, compared
from quicksilver.simulator.run import Row
from quicksilver.simulator.stock import best, rank, stock_of

LIMIT: Final = 12
"""Systems with a sentence of their own; the tables have all."""
_KINDS: Final = ("mean", "p50", "p95")
_IN: Final = {"mean": "in the mean"}
_UNFINISHED: Final = "unfinished"


def findings(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each system that is compared, that killed, or that has jobs which did not end."""
    variants = by_label(rows)
    base = stock_of(variants) or list(variants)[:1]
    others = [label for label in variants if label not in base]
    sentences = [_sentence(label, base, variants) for label in others[:LIMIT]]
    if len(others) > LIMIT:
        sentences.append(f"{len(others) - LIMIT} more systems are in the tables.")
    if sentences:
        sentences.append(_chance(variants))
    return [*sentences, *_killed(variants), *_cut(variants)]


def _sentence(label: str, base: Sequence[str], variants: Mapping[str, Sequence[Row]]) -> str:
    parts = [_part(kind, label, base, variants) for kind in _KINDS]
    known = "; ".join(part for part in parts if part)
    return f"{label}: {known or 'no figure can be compared'}."


def _part(kind: str, label: str, base: Sequence[str], variants: Mapping[str, Sequence[Row]]) -> str:
    """Return one figure's ratio in words; "" without one."""
    name = f"{kind}_{ALL}"
    rival = best(name, base, variants)
    ratio = compared(variants[rival], variants[label], name) if rival else None
    if ratio is None:
        return ""
    which = rank(rival, variants)
    whose = f"the time of {which} ({rival})" if which else f"{rival}'s time"
    good = better(name, ratio) if isinstance(ratio, ReportEstimate) else (True if ratio < 1 else None)
    if kind == "mean":
        worse = ", which is no better" if good is None else ", which is worse" if not good else ""
        return f"its jobs took {shown(ratio)} of {whose} {_IN[kind]}{worse}"
    if good is None:
        return f"{kind} is no better ({_against(ratio, rival)})"
    return f"{kind} is {'' if good else 'worse: '}{_against(ratio, rival)}"


def _against(ratio: ReportEstimate | float, rival: str) -> str:
    return f"{shown(ratio)} of {rival}'s"


def _chance(variants: Mapping[str, Sequence[Row]]) -> str:
    seeds = min(len({row.seed for row in same}) for same in variants.values())
    if seeds == 1:
        return "One seed: how much of this is chance is not known; --seeds 5 tells."
    return f"In brackets: 95 % intervals over {seeds} seeds, which say nothing of other jobs (--sample 0.8 does)."


def _killed(variants: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """Yield who killed containers, as means over the seeds."""
    for label, rows in variants.items():
        kills = fmean(row.figures.counts.get("kills", 0) for row in rows)
        lost_s = [row.figures.extra["lost_s"] for row in rows if "lost_s" in row.figures.extra]
        if kills:
            work = f"; {shown(fmean(lost_s))} s of their work were lost" if lost_s else ""
            yield f"{label}: {shown(kills)} containers were killed{work}."


def _cut(variants: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """Yield which systems have jobs that did not end."""
    for label, rows in variants.items():
        cut = sum(row.figures.counts.get(_UNFINISHED, 0) for row in rows)
        known = sum(int(row.figures.extra.get(_UNFINISHED, 0)) for row in rows)
        jobs = sum(int(row.figures.metrics.get(f"jobs_{ALL}", 0)) for row in rows)
        if cut:
            yield f"{label}: {cut} of {jobs + cut} jobs had not ended when the run did, and are in no figure of jobs."
        if known:
            yield f"{label}: {known} tasks have no known end in the record and are in no figure."
