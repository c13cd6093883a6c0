"""The interval of a verdict as a small drawing beside its sentence: zero, the margin, where the difference lies."""

from __future__ import annotations

from collections.abc import Sequence

from headtohead.comparing.report.words import signed, signed_between
from headtohead.comparing.verdict import Verdict

_WIDTH, _HEIGHT, _EDGE = 220, 30, 8
_OF_MEANS = ("paired t", "Welch's t")


def reach_of(verdicts: Sequence[Verdict]) -> float:
    """How far from zero the drawings reach, so that all have one scale."""
    ends = [abs(end) for verdict in verdicts if _shown(verdict) for end in verdict.interval or ()]
    return max([*ends, *(1.25 * verdict.margin for verdict in verdicts if verdict.margin)], default=0.0)


def strip(verdict: Verdict, reach: float) -> str:
    """HTML: counts where rates decide; empty where there is no interval of means either."""
    if verdict.solved is not None and verdict.of is not None:
        first, second = (f"{solved} of {of}" for solved, of in zip(verdict.solved, verdict.of, strict=True))
        return f'<div class="strip"><p>{first} solved<span>against {second}</span></p></div>'
    if not _shown(verdict) or verdict.interval is None or verdict.difference is None or not reach:
        return ""
    middle, half = _HEIGHT / 2, (_WIDTH / 2 - _EDGE) / reach

    def across(value: float) -> str:
        return f"{_WIDTH / 2 + half * value:.1f}"

    low, high = (across(end) for end in verdict.interval)
    parts = []
    if verdict.margin:
        wide = f"{2 * half * verdict.margin:.1f}"
        parts.append(f'<rect class="margin" x="{across(-verdict.margin)}" y="0" width="{wide}" height="{_HEIGHT}"/>')
    parts.append(f'<path class="axis" d="M{_EDGE} {middle}H{_WIDTH - _EDGE}"/>')
    parts.append(f'<path class="zero" d="M{across(0)} 0V{_HEIGHT}"/>')
    parts.append(f'<path class="interval" d="M{low} {middle}H{high}M{low} {middle - 5}v10M{high} {middle - 5}v10"/>')
    parts.append(f'<circle cx="{across(verdict.difference)}" cy="{middle}" r="4.5"/>')
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    told = f"{signed(verdict.difference)}<span>{signed_between(verdict.interval)}</span>"
    return f'<div class="strip"><svg {size} aria-hidden="true">{"".join(parts)}</svg><p>{told}</p></div>'


def _shown(verdict: Verdict) -> bool:
    return verdict.method in _OF_MEANS and verdict.interval is not None
