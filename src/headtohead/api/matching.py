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
from headtohead.studies.matching.budgets import Budget, budget_of
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
    options = [word for word in overrides if key_of(word).partition(".")[0] == "budget"]
    of_runs = [word for word in overrides if word not in options]
    known = None
    if isinstance(arms, str):
        known = _study(arms, of_runs, config_dir)
        if options and budget is None and known.budget is not None:  # which reads them itself
            known, options = _study(arms, overrides, config_dir), []
    made = known.arms if known is not None else {name: tuple(own) for name, own in dict(arms).items()}  # type: ignore[arg-type]
    written = known.budget if known is not None and budget is None else None
    requested = written or RequestedBudget(budget or "equal_parameters")
    equal = budget_of(compose_checked("match", [*requested.overrides, *options], config_dir))
    first = baseline or (known.baseline if known is not None else next(iter(made)))
    named = {name: tuple(moves) for name, moves in movable.items()}
    of_others = dict.fromkeys([name for name in made if name != first], named.pop("*")) if "*" in named else {}
    own_moves = {} if known is None else _moves_of(known, first, None if budget is None else equal)
    moves = {**own_moves, **of_others, **named}
    shapes = {name: without_foundation(own) for name, own in made.items()}
    base = without_foundation(of_runs if known is None else known.base)
    return upgraded(MatchedArms, match_arms(base, shapes, first, equal, moves, config_dir=config_dir, report=tell))


def _study(name: str, overrides: Sequence[str], config_dir: str | Path | None) -> Study:
    known = read_study(name, overrides, config_dir)
    return known if known.ablation is None else StudyPlanner(known, config_dir).study


def _moves_of(study: Study, baseline: str, instead: Budget | None) -> dict[str, tuple[str, ...]]:
    """Return the study's moves of all arms but the baseline; under another budget instead, those that change it."""
    moves = {arm: own for arm, own in study.movable.items() if arm != baseline}
    if instead is None:
        return moves
    return {arm: tuple(move for move in own if move in instead.changed_by) for arm, own in moves.items()}
