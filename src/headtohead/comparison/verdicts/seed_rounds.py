"""Choose the next seeds of a study that adds them until it is decided: from the runs that have ended and nothing else,
so that whoever asks, and however often the study was stopped before, gets the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headtohead.comparison.contrasts import Registration, SeedRounds, SeedStop
from headtohead.comparison.statistics.e_processes import (
    Floats,
    discordant_pairs,
    sign_flips,
    t_mixture,
    two_proportions,
)
from headtohead.comparison.statistics.multiple_testing import adjusted
from headtohead.comparison.verdicts.evidence import Outcomes, TestDesign
from headtohead.comparison.verdicts.seed_evidence import (
    differences_of,
    equivalent_by,
    evidence_by,
    seed_evidence_of,
    solved,
)

Pair = tuple[str, str]
"""An arm, and what it is compared with."""


@dataclass(frozen=True)
class EndedRun:
    """The end of a run."""

    value: float | None
    """The value; None means that it diverged, or has none."""
    counts: bool = True
    """Whether the run counts; one that could not be made, such as one out of memory, does not, so that its seed is
    missing."""


Ended = Callable[[str, int], EndedRun | None]
"""A function from an arm and a seed to how the run ended; None while it has not."""


@dataclass(frozen=True)
class RoundProgress:
    """The state of the rounds."""

    seeds: Mapping[str, int]
    """The number of seeds that each arm is to have, as far as is known."""
    stops: Mapping[Pair, SeedStop]
    """The reasons to stop, by contrast."""

    @property
    def is_open(self) -> bool:
        """Return whether more seeds may follow."""
        return any(stop.reason == "open" for stop in self.stops.values())

    def may_grow(self, arm: str) -> bool:
        """Return whether the arm may get more seeds."""
        return any(arm in pair and stop.reason == "open" for pair, stop in self.stops.items())


def follow_rounds(
    rounds: SeedRounds, arms: Sequence[str], contrasts: Sequence[Pair], registration: Registration, ended: Ended
) -> RoundProgress:
    """Round after round, from the first: a round adds a seed to every arm of an open contrast, once all before it have
    ended. A contrast that is decided, or that the seeds left are not expected to decide, gets no more."""
    seeds = dict.fromkeys(arms, rounds.start)
    stops: dict[Pair, SeedStop] = {}
    p_values: dict[Pair, tuple[float | None, float | None]] = {}
    for number in range(rounds.start, rounds.most + 1):
        still_open = [pair for pair in contrasts if pair not in stops]
        of_round = [arm for arm in arms if any(arm in pair for pair in still_open)]
        seeds |= dict.fromkeys(of_round, number)
        known = {arm: _outcomes(arm, number, ended) for arm in of_round}
        if not still_open or any(outcomes is None for outcomes in known.values()):
            break
        read = {arm: outcomes or {} for arm, outcomes in known.items()}
        cases = {
            pair: (read[pair[0]], read[pair[1]], design_of(registration, pair, len(contrasts))) for pair in still_open
        }
        for pair, (first, second, question) in cases.items():
            result = seed_evidence_of(first, second, question)
            p_values[pair] = result.p, result.p_equivalent
        decided = _decided(contrasts, p_values, registration)
        for pair, (first, second, question) in cases.items():
            if pair in decided:
                stops[pair] = SeedStop(number, "decided")
            elif number == rounds.most:
                stops[pair] = SeedStop(number, "all seeds")
            elif is_futile(first, second, question, rounds.most):
                stops[pair] = SeedStop(number, "futile")
    return RoundProgress(seeds, {pair: stops.get(pair, SeedStop(_most(seeds, pair), "open")) for pair in contrasts})


def design_of(registration: Registration, names: Pair, num_contrasts: int) -> TestDesign:
    """Return how a contrast of the family is read."""
    return TestDesign(
        larger_is_better=registration.direction == "max",
        level=registration.alpha,
        margin=registration.margin,
        paired=registration.paired,
        scale=registration.scale,
        solved_at=registration.solved_at,
        names=names,
        num_contrasts=num_contrasts,
        alpha=registration.alpha,
    )


@lru_cache(maxsize=64)
def fewest_seeds(level: float, start: int, most: int) -> int | None:
    """Return the fewest seeds with which means can be decided at this level: where all differences are alike. None
    where not even the most suffice."""
    alike = 1 + 1e-6 * np.arange(most)
    reached = np.minimum(sign_flips(alike), t_mixture(alike)) >= -math.log(level)
    return max(start, int(reached.argmax()) + 1) if reached.any() else None


def _outcomes(arm: str, number: int, ended: Ended) -> Outcomes | None:
    """Return None while one of so many seeds has not ended."""
    runs = [ended(arm, seed) for seed in range(number)]
    if any(run is None for run in runs):
        return None
    return {seed: run.value for seed, run in enumerate(runs) if run is not None and run.counts}


def _decided(
    contrasts: Sequence[Pair], p_values: Mapping[Pair, tuple[float | None, float | None]], registration: Registration
) -> set[Pair]:
    dropped = [None] * registration.num_dropped
    families = [[*(p_values[pair][kind] for pair in contrasts), *dropped] for kind in (0, 1)]
    results = [adjusted(family, "holm") for family in families]
    return {
        pair
        for pair, *of_pair in zip(contrasts, results[0], results[1], strict=False)
        if any(p is not None and p < registration.alpha for p in of_pair)
    }


def _most(seeds: Mapping[str, int], pair: Pair) -> int:
    return min(seeds[arm] for arm in pair)


LEAST_SHARE = 0.05
"""The share of continuations that decide the contrast below which no more seeds are added."""
_CONTINUATIONS = 400
_DRAWN_WITH = 0
_FEWEST = 3
"""Seeds that say anything of a spread."""
_PRIOR = 0.5
_Arms = tuple[tuple[float | None, ...], tuple[float | None, ...]]


def is_futile(first: Outcomes, second: Outcomes, question: TestDesign, most: int) -> bool:
    """Return whether fewer than one continuation in twenty would decide the contrast, were the rest of its family
    decided. Runs that diverged have no spread to continue, and are not judged."""
    shared = sorted(first.keys() & second.keys())
    if not shared:
        return True
    arms = (tuple(first[seed] for seed in shared), tuple(second[seed] for seed in shared))
    return len(shared) >= _FEWEST and _is_futile(arms, question, most - len(shared))


@lru_cache(maxsize=4096)
def _is_futile(arms: _Arms, question: TestDesign, left: int) -> bool:
    """Rounds are followed from the first one again and again, and ask the same each time."""
    rng = np.random.default_rng(_DRAWN_WITH)
    if question.solved_at is not None:
        known = [solved(arm, question, question.solved_at) for arm in arms]
        return _too_few(_rates_continued(known[0], known[1], left, question, rng), question)
    if any(value is None for arm in arms for value in arm):
        return False
    paths = _continued(differences_of(arms, question), left, rng)
    evidence = evidence_by(paths)
    if question.margin is not None:
        evidence = np.maximum(evidence, equivalent_by(paths, question.margin).max(axis=-1))
    return _too_few(evidence, question)


def _too_few(evidence: Floats, question: TestDesign) -> bool:
    return float((evidence >= -math.log(question.alpha)).mean()) < LEAST_SHARE


def _continued(known: Floats, left: int, rng: np.random.Generator) -> Floats:
    """Return the differences so far with others after them: normal ones, of means and spreads that these leave open."""
    number = len(known)
    spread = known.std(ddof=1) * np.sqrt((number - 1) / rng.chisquare(number - 1, size=(_CONTINUATIONS, 1)))
    mean = known.mean() + spread / math.sqrt(number) * rng.normal(size=(_CONTINUATIONS, 1))
    return _after(known, mean + spread * rng.normal(size=(_CONTINUATIONS, left)))


def _rates_continued(
    first: Floats, second: Floats, left: int, question: TestDesign, rng: np.random.Generator
) -> Floats:
    if question.paired:
        leads = first - second
        rates = rng.dirichlet([(leads == lead).sum() + _PRIOR for lead in (-1, 0, 1)], size=(_CONTINUATIONS, 1))
        drawn = rng.uniform(size=(_CONTINUATIONS, left))
        later = (drawn > rates[..., 0]).astype(np.float64) + (drawn > rates[..., 0] + rates[..., 1]) - 1
        evidence = discordant_pairs(_after(leads, later))
    else:
        arms = []
        for arm in (first, second):
            rate = rng.beta(arm.sum() + _PRIOR, len(arm) - arm.sum() + _PRIOR, size=(_CONTINUATIONS, 1))
            arms.append(_after(arm, (rng.uniform(size=(_CONTINUATIONS, left)) < rate).astype(np.float64)))
        evidence = two_proportions(arms[0], arms[1])
    return np.asarray(evidence.max(axis=-1))


def _after(known: Floats, later: Floats) -> Floats:
    return np.concatenate([np.broadcast_to(known, (len(later), len(known))), later], axis=1)
