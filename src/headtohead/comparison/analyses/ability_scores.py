"""Score who can do what: contestants on several data sets or tasks, each from chance at 0 to the best at 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from headtohead.comparison.analyses.across_tasks import TaskAggregate
from headtohead.comparison.metric_scales import scale_in
from headtohead.comparison.statistics.factorial import Cell
from headtohead.metrics import Direction
from headtohead.records.record import RunRecord


@dataclass(frozen=True)
class AbilityScore:
    """An ability score is what one contestant reaches on one ability."""

    contestant: str
    ability: str
    score: float | None
    """The mean over its finished runs; None where none has finished, or chance is not known."""
    lowest: float | None = None
    highest: float | None = None
    """The scores of its worst and of its best run."""
    value: float | None = None
    """The mean of the metric itself."""
    chance: float | None = None
    runs: int = 0


@dataclass(frozen=True)
class AbilityScores:
    """All contestants by all abilities; combinations that could not be built are absent."""

    contestants: tuple[str, ...]
    abilities: tuple[str, ...]
    scores: tuple[AbilityScore, ...]
    metric: str
    normalisation: str = "score 0 is chance, 1 the best possible value"

    def of(self, contestant: str, ability: str) -> AbilityScore | None:
        """Return the score of one cell; None where there is none."""
        return next((one for one in self.scores if (one.contestant, one.ability) == (contestant, ability)), None)

    def mean(self, contestant: str) -> float | None:
        """Return the mean over the abilities; None where one is missing."""
        known = [None if (one := self.of(contestant, ability)) is None else one.score for ability in self.abilities]
        scores = [score for score in known if score is not None]
        return fmean(scores) if len(scores) == len(self.abilities) else None

    @property
    def ranked(self) -> list[str]:
        """Return the contestants, the best on average first; those without an average last, as they were."""
        means = {contestant: self.mean(contestant) for contestant in self.contestants}
        return sorted(self.contestants, key=lambda one: (means[one] is None, -(means[one] or 0.0)))


@dataclass(frozen=True)
class AbilityMetric:
    """The metric by which all abilities are measured."""

    name: str
    """The metric as records have it: test/token_accuracy."""
    direction: Direction
    best: float | None = None
    """The best value there is, where it is not the metric's own."""


def ability_scores(
    arms: Mapping[str, Cell], across: str, records: Mapping[str, Sequence[RunRecord]], metric: AbilityMetric
) -> AbilityScores:
    """Score the arms of a design by the factor that chooses data or task; the levels of all other factors make a
    contestant. `records` holds the finished runs of each arm. Every ability has a chance of its own."""
    named = {arm: "+".join(level for factor, level in cell.items() if factor != across) for arm, cell in arms.items()}
    abilities = tuple(dict.fromkeys(cell[across] for cell in arms.values()))
    on_ability = {
        ability: [record for arm, cell in arms.items() if cell[across] == ability for record in records.get(arm, ())]
        for ability in abilities
    }
    scores = [
        _score(named[arm], cell[across], records.get(arm, ()), on_ability[cell[across]], metric)
        for arm, cell in arms.items()
    ]
    return AbilityScores(tuple(dict.fromkeys(named.values())), abilities, tuple(scores), metric.name)


def scores_of_tasks(aggregate: TaskAggregate) -> AbilityScores:
    """Return the same of several studies or tasks that were compared together."""
    tasks = tuple(scale.task for scale in aggregate.scales)
    metrics = dict.fromkeys(scale.metric for scale in aggregate.scales)
    scores = tuple(
        AbilityScore(arm.name, task, arm.means[task], runs=len(aggregate.seeds))
        for arm in aggregate.arms
        for task in tasks
    )
    contestants = tuple(arm.name for arm in aggregate.arms)
    return AbilityScores(contestants, tasks, scores, ", ".join(metrics), aggregate.normalisation)


def _score(
    contestant: str, ability: str, own: Sequence[RunRecord], everybody: Sequence[RunRecord], metric: AbilityMetric
) -> AbilityScore:
    stage, _, name = metric.name.partition("/")
    values = [value for record in own if (value := record.metrics.get(stage, {}).get(name)) is not None]
    scale = scale_in(everybody, stage, name, direction=metric.direction, best=metric.best)
    if not values or scale is None:
        mean = fmean(values) if values else None
        return AbilityScore(contestant, ability, None, value=mean, runs=len(values))
    scores = [(value - scale.chance) / (scale.best - scale.chance) for value in values]
    return AbilityScore(
        contestant, ability, fmean(scores), min(scores), max(scores), fmean(values), scale.chance, len(values)
    )
