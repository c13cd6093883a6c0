"""Compute the price of a family of contrasts: the level for each, and the effects that seeds can show at it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from headtohead.comparison.statistics.exact_tests import seeds_to_decide
from headtohead.comparison.statistics.multiple_testing import interim_levels
from headtohead.comparison.statistics.power import POWER, detectable_effect

if TYPE_CHECKING:
    from headtohead.comparison.contrasts import SeedRounds, Verdict

_MORE = (3, 5, 8, 10, 20)
"""Numbers of seeds whose effects are shown beside those of the plan."""
_NUM_OTHERS = 3
_METHODS = {"holm": "Holm's first step", "benjamini_hochberg": "the first step of Benjamini and Hochberg"}
_WHOSE_DEVIATION = {True: "the paired difference's", False: "each arm's"}


@dataclass(frozen=True)
class ContrastFamily:
    """Contrasts that are judged together; effects are in standard deviations, which nobody knows before the runs."""

    num_contrasts: int
    num_seeds: int
    alpha: float
    level: float
    """The level that a p-value by itself has to stay below at the end, whatever the rest of the family says."""
    paired: bool
    effect: float | None
    """The smallest found in 80 % of studies; None where none is."""
    effects: tuple[tuple[int, float], ...]
    """The effects that other numbers of seeds could show."""
    seeds_of_exact_tests: int | None = None
    """The fewest that tell arms apart of which one solves its task; None where there is no best value."""
    rounds: SeedRounds | None = None
    """The rule by which seeds are added until contrasts are decided; docs/study.md tells which effects that finds."""

    def to_dict(self) -> dict[str, Any]:
        """Return the family as JSON holds it."""
        return {**asdict(self), "power": POWER, "effects": {str(seeds): effect for seeds, effect in self.effects}}

    @property
    def sentence(self) -> str:
        """Return the family in words."""
        if self.num_contrasts == 1:
            level = f"one contrast, held to p < {self.level:.2g}"
        else:
            level = (
                f"{self.num_contrasts} contrasts share one correction (Holm), whose first step is p < {self.level:.2g}"
            )
        if self.rounds is not None:
            start, most = self.rounds.start, self.rounds.most
            return f"{level} at every look; seeds are added from {start} to {most} until each is decided"
        if self.effect is None:
            return f"{level}; a single seed shows nothing"
        whose = _WHOSE_DEVIATION[self.paired]
        power = f"{_seeds(self.num_seeds)} detect a difference of {self.effect:.2g} times {whose} standard deviation"
        others = ", ".join(f"{seeds} seeds {effect:.2g} times" for seeds, effect in self.effects)
        return f"{level}; {power} in 80 % of studies, {others}{self._exact_tests()}"

    def _exact_tests(self) -> str:
        """An arm that solves its task is compared by how many of its seeds do."""
        if self.seeds_of_exact_tests is None or self.seeds_of_exact_tests <= self.num_seeds:
            return ""
        needed = _seeds(self.seeds_of_exact_tests)
        return f"; where one of two arms solves its task, exact tests decide nothing with fewer than {needed}"


def family_of(
    num_contrasts: int,
    num_seeds: int,
    *,
    alpha: float,
    interim_analyses: Sequence[int] = (),
    paired: bool = True,
    can_be_solved: bool = False,
    rounds: SeedRounds | None = None,
) -> ContrastFamily:
    """Return the family of a design; with interim_analyses, at the last of them."""
    if rounds is not None:
        level = alpha / num_contrasts
        return ContrastFamily(num_contrasts, num_seeds, alpha, level, paired, None, (), rounds=rounds)
    last = interim_levels(interim_analyses, alpha=alpha, num_contrasts=num_contrasts)[-1] if interim_analyses else alpha
    level, seeds = last / num_contrasts, interim_analyses[-1] if interim_analyses else num_seeds

    def effect_of(number: int) -> float:
        return detectable_effect(number, alpha=alpha, level=level, paired=paired)

    more = [number for number in _MORE if number > seeds][:_NUM_OTHERS] or [2 * seeds]
    effect = effect_of(seeds)
    others = tuple((number, effect_of(number)) for number in more)
    detectable = effect if math.isfinite(effect) else None
    needed = seeds_to_decide(level) if can_be_solved else None
    return ContrastFamily(num_contrasts, seeds, alpha, level, paired, detectable, others, needed)


def families_in(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a sentence for each family of more than one contrast: registered ones and those that explore are apart."""
    families: dict[tuple[int, float, str], None] = {}
    for verdict in verdicts:
        if verdict.adjustment is not None:
            families.setdefault((verdict.num_contrasts, verdict.family_level, verdict.adjustment))
    return [
        f"{contrasts} contrasts share one correction: before it, p < {level:.2g} decides any of them, whatever the "
        f"others show ({_METHODS[method]}); effects that so many seeds can show are computed at that level"
        for contrasts, level, method in families
    ]


def _seeds(number: int) -> str:
    return f"{number} seed{'' if number == 1 else 's'}"
