"""Judge the seeds so far of a contrast that is looked at after every one of them.

Which evidence counts follows from the registration alone: solve rates where it says from which value on a run solved
the task, means otherwise, whatever shape the values have. Means are decided where two e-processes agree: one that holds
for normal differences, and one of flipped signs that holds wherever equal arms are exchangeable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headtohead.comparison.statistics.e_processes import (
    Floats,
    discordant_pairs,
    sign_flips,
    t_mixture,
    t_radius,
    two_proportions,
)
from headtohead.comparison.verdicts.evidence import NO_VALUES, Outcomes, TestDesign, TestResult, neither_learned

T_MIXTURE, SIGN_FLIPS, WITHIN, RATES = "t mixture", "sign flips", "within the margin", "solve rates"
_Arms = tuple[Sequence[float | None], Sequence[float | None]]


def evidence_words(solved_at: float | None, *, paired: bool) -> str:
    """Return which evidence counts, as a registration holds it."""
    if solved_at is None:
        return f"{T_MIXTURE} and {SIGN_FLIPS}"
    return f"{RATES} from {solved_at:g} on, {'discordant pairs' if paired else 'two proportions'}"


def seed_evidence_of(first: Outcomes, second: Outcomes, question: TestDesign) -> TestResult:
    """Return the evidence of all seeds that both arms have, in the order of the seeds."""
    shared = sorted(first.keys() & second.keys())
    arms = ([first[seed] for seed in shared], [second[seed] for seed in shared])
    if not shared:
        return NO_VALUES
    result = _of_means(arms, question) if question.solved_at is None else _of_rates(arms, question, question.solved_at)
    return replace(result, neither_learned=neither_learned(arms, question))


def solved(arm: Sequence[float | None], question: TestDesign, at: float) -> Floats:
    """Return 1 for each run that solved the task, 0 for others; one that diverged did not."""
    sign = 1 if question.larger_is_better else -1
    return np.array([value is not None and sign * (value - at) >= 0 for value in arm], dtype=np.float64)


def differences_of(arms: _Arms, question: TestDesign) -> Floats:
    """Return first minus second by seed; to a run that diverged, and ranks worst, the difference is infinite."""
    worst = -math.inf if question.larger_is_better else math.inf
    pairs = zip(*arms, strict=True)
    return np.array(
        [0.0 if a is b is None else worst if a is None else -worst if b is None else a - b for a, b in pairs]
    )


def evidence_by(differences: Floats) -> Floats:
    """Return for each row of differences the evidence at its end that the mean is not 0: the smaller of both."""
    return np.asarray(np.minimum(sign_flips(differences).max(axis=-1), t_mixture(differences).max(axis=-1)))


def equivalent_by(differences: Floats, margin: float) -> Floats:
    """Return after each difference the evidence that the mean lies within the margin: the smaller of that against both
    of its ends, where the mean so far lies between them."""
    mean = differences.cumsum(axis=-1) / np.arange(1, differences.shape[-1] + 1)
    ends = [process(differences + end) for end in (margin, -margin) for process in (t_mixture, sign_flips)]
    return np.where(np.abs(mean) < margin, np.minimum.reduce(ends), 0.0)


def _of_means(arms: _Arms, question: TestDesign) -> TestResult:
    differences = differences_of(arms, question)
    signs = sign_flips(differences)
    better = 1 if question.larger_is_better else -1
    if diverged := any(value is None for arm in arms for value in arm):
        finite = differences[[a is not None and b is not None for a, b in zip(*arms, strict=True)]]
        mean = float(finite.mean()) if len(finite) else None
        lead = int(np.sign(np.sign(differences).sum())) * better
        p, because = _p(signs), "runs diverged, which rank worst"
        return TestResult("e-process", because, lead, mean, p=p, p_exact=p, curves=_curves({SIGN_FLIPS: signs}))
    assert not diverged
    normal, mean = t_mixture(differences), float(differences.mean())
    spread = float(differences.std(ddof=1)) if len(differences) > 1 else 0.0
    within = {} if question.margin is None else {WITHIN: equivalent_by(differences, question.margin)}
    radius = t_radius(len(differences), spread, question.level) if spread else math.inf
    return TestResult(
        "e-process",
        lead=int(np.sign(mean)) * better,
        difference=mean,
        interval=(mean - radius, mean + radius) if math.isfinite(radius) else None,
        p=max(_p(normal), _p(signs)),
        p_exact=_p(signs),
        p_equivalent=_p(within[WITHIN]) if within else None,
        curves=_curves({T_MIXTURE: normal, SIGN_FLIPS: signs, **within}),
    )


def _of_rates(arms: _Arms, question: TestDesign, at: float) -> TestResult:
    first, second = (solved(arm, question, at) for arm in arms)
    rates = discordant_pairs(first - second) if question.paired else two_proportions(first, second)
    difference = float(first.mean() - second.mean())
    return TestResult(
        "e-process of solve rates",
        "solved was defined in the registration",
        int(np.sign(difference)),
        difference,
        p=_p(rates),
        solved=(int(first.sum()), int(second.sum())),
        of=(len(first), len(second)),
        curves=_curves({RATES: rates}),
    )


def _p(evidence: Floats) -> float:
    """Return 1 / max E, a p-value at every stop."""
    return math.exp(-max(0.0, float(evidence.max())))


def _curves(evidence: dict[str, Floats]) -> dict[str, tuple[float, ...]]:
    return {name: tuple((curve / math.log(10)).round(6).tolist()) for name, curve in evidence.items()}
