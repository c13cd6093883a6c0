"""The sections of the report, in its order; each is left out where it has nothing to show."""

from __future__ import annotations

from collections.abc import Callable

from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.report.section_parts import Section
from headtohead.comparison.report.sections.answers import section as answers
from headtohead.comparison.report.sections.arms import failed_runs_section as troubles
from headtohead.comparison.report.sections.arms import section as arms
from headtohead.comparison.report.sections.attention_maps import section as maps
from headtohead.comparison.report.sections.configs import environment_section as environment
from headtohead.comparison.report.sections.configs import section as configs
from headtohead.comparison.report.sections.curves import section as curves
from headtohead.comparison.report.sections.differences import section as differences
from headtohead.comparison.report.sections.differences import seeds_section as seeds
from headtohead.comparison.report.sections.effects import section as effects
from headtohead.comparison.report.sections.lengths import section as lengths
from headtohead.comparison.report.sections.matching import section as matching
from headtohead.comparison.report.sections.pareto import section as pareto
from headtohead.comparison.report.sections.pareto import speed_section as speed
from headtohead.comparison.report.sections.ranking import section as ranking
from headtohead.comparison.report.sections.scaling import section as scaling
from headtohead.comparison.report.sections.tasks import abilities_section as abilities
from headtohead.comparison.report.sections.tasks import section as tasks
from headtohead.comparison.report.sections.training_rows import section as rows
from headtohead.comparison.report.sections.tuning import section as tuning

SECTIONS: tuple[Callable[[ComparisonResults], Section | None], ...] = (
    abilities,
    answers,
    arms,
    differences,
    seeds,
    tasks,
    effects,
    ranking,
    scaling,
    lengths,
    rows,
    curves,
    tuning,
    pareto,
    speed,
    maps,
    matching,
    troubles,
    configs,
    environment,
)
