"""Arms brought to the same costs, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headtohead.api.error_translation import python_errors_with
from headtohead.api.result import Result, upgraded
from headtohead.api.studies import Tell
from headtohead.config.compose.composition import compose_checked
from headtohead.config.compose.overrides import key_of
from headtohead.config.trust import trusting
from headtohead.errors import UsageError
from headtohead.studies.definition.read_study_file import read_study
from headtohead.studies.definition.study import RequestedBudget, Study, without_foundation
from headtohead.studies.matching.budgets import budget_of
from headtohead.studies.matching.match_arms import match as match_arms
from headtohead.studies.matching.matching import Matching
from headtohead.studies.planning.study_plan import StudyPlanner


class MatchedArms(Result, Matching):
    """The sizes at which arms cost what the baseline costs, a row for each arm."""

    @property
    def title(self) -> str:
        return f"{self.budget.figure} of {self.baseline}: {self.target:,.0f}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {
                "arm": arm.name,
                "overrides": list(arm.overrides),
                "achieved": arm.achieved,
                "residual": arm.residual,
                "met": arm.met,
                "reason": arm.reason or None,
            }
            for arm in self.arms
        ]


@python_errors_with(arm="arms", move="movable")
def match(
    arms: Mapping[str, Sequence[str]] | str,
    overrides: Sequence[str] = (),
    *,
    baseline: str | None = None,
    budget: str | None = None,
    movable: Mapping[str, Sequence[str]] | None = None,
    config_dir: str | Path | None = None,
    trust: Sequence[str] = (),
    tell: Tell | None = None,
) -> MatchedArms:
    """Find the sizes, or the steps, at which arms cost what the baseline costs; nothing is trained.

    `arms` are overrides by name, or the name of a study; `budget` is equal_parameters unless given (or equal_flops,
    equal_tokens, equal_state, equal_time, equal_energy), and `movable` says by arm what may change: width, head_size,
    depth, feedforward, steps; under "*" for every arm but the baseline. Overrides that begin with `budget.` are the
    budget's own, all others those of every arm. `config_dir` and `trust` are as in `compose`.
    """
    with trusting(trust):
        return _matched(arms, overrides, baseline, budget, movable or {}, config_dir, tell)


def _matched(
    arms: Mapping[str, Sequence[str]] | str,
    overrides: Sequence[str],
    baseline: str | None,
    budget: str | None,
    movable: Mapping[str, Sequence[str]],
    config_dir: str | Path | None,
    tell: Tell | None,
) -> MatchedArms:
    if not arms:
        raise UsageError("there is nothing to match: name a study, or give two or more arms")
    known = _arms_of(arms, overrides, config_dir) if isinstance(arms, str) else None
    made = known.arms if known is not None else {name: tuple(own) for name, own in dict(arms).items()}  # type: ignore[arg-type]
    shared = list(overrides) if known is None else list(known.base)
    own = [word for word in shared if key_of(word).partition(".")[0] == "budget"]
    written = known.budget if known is not None and budget is None else None
    requested = written or RequestedBudget(budget or "equal_parameters")
    config = compose_checked("match", [*requested.overrides, *own], config_dir)
    first = baseline or (known.baseline if known is not None else next(iter(made)))
    named = {name: tuple(moves) for name, moves in movable.items()}
    of_others = dict.fromkeys([name for name in made if name != first], named.pop("*")) if "*" in named else {}
    moves = {**(known.movable if known is not None else {}), **of_others, **named}
    shapes = {name: without_foundation(own) for name, own in made.items()}
    base = without_foundation([word for word in shared if word not in own])
    return upgraded(
        MatchedArms, match_arms(base, shapes, first, budget_of(config), moves, config_dir=config_dir, report=tell)
    )


def _arms_of(name: str, overrides: Sequence[str], config_dir: str | Path | None) -> Study:
    known = read_study(name, overrides, config_dir)
    return known if known.ablation is None else StudyPlanner(known, config_dir).study
