"""The sections of the report, in its order; each is left out where it has nothing to show."""

from __future__ import annotations

from collections.abc import Callable

from headtohead.comparing.findings import Findings
from headtohead.comparing.report.parts import Section
from headtohead.comparing.report.sections.answers import section as answers
from headtohead.comparing.report.sections.arms import section as arms
from headtohead.comparing.report.sections.configs import section as configs
from headtohead.comparing.report.sections.curves import section as curves
from headtohead.comparing.report.sections.differences import section as differences
from headtohead.comparing.report.sections.effects import section as effects
from headtohead.comparing.report.sections.environment import section as environment
from headtohead.comparing.report.sections.lengths import section as lengths
from headtohead.comparing.report.sections.maps import section as maps
from headtohead.comparing.report.sections.matching import section as matching
from headtohead.comparing.report.sections.pareto import section as pareto
from headtohead.comparing.report.sections.ranking import section as ranking
from headtohead.comparing.report.sections.rows import section as rows
from headtohead.comparing.report.sections.scaling import section as scaling
from headtohead.comparing.report.sections.speed import section as speed
from headtohead.comparing.report.sections.tasks import section as tasks
from headtohead.comparing.report.sections.troubles import section as troubles
from headtohead.comparing.report.sections.tuning import section as tuning

SECTIONS: tuple[Callable[[Findings], Section | None], ...] = (
    answers,
    arms,
    differences,
    tasks,
    effects,
    ranking,
    scaling,
    rows,
    curves,
    lengths,
    tuning,
    pareto,
    speed,
    maps,
    matching,
    troubles,
    configs,
    environment,
)
