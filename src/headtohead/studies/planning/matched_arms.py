"""The arms of a study brought to what its baseline costs, before the first of them is run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.config.errors import ConfigurationError
from headtohead.config.run_config import RunConfig
from headtohead.config.run_id import run_id
from headtohead.studies.definition.study import MEASURED_BUDGETS, Study

if TYPE_CHECKING:
    from headtohead.studies.matching.budgets import Budget
    from headtohead.studies.matching.matching import Matching, SavedMatching

Config = Mapping[str, Any]
Report = Callable[[str], None]
_ID_LENGTH = 12


def matched(
    study: Study,
    drafts: Mapping[str, Config],
    folder: Path,
    *,
    config_dir: str | Path | None = None,
    threads: int | None = None,
    report: Report | None = None,
) -> Matching | None:
    """Match the arms as they are written; return None if nothing has to be equal.

    Found once, and kept in the folder of the study: another plan, here or elsewhere, reads what was found.
    """
    if study.budget is None:
        return None
    from headtohead.config.compose.composition import compose_checked
    from headtohead.studies.matching.budgets import budget_of
    from headtohead.studies.matching.matching import SavedMatchings
    from headtohead.studies.matching.solver import match_composed

    budget = budget_of(compose_checked("match", study.budget.overrides, config_dir))
    if "steps" in budget.changed_by:
        _refuse_early_ends(study, drafts)

    def solve(names: Sequence[str]) -> Matching:
        configs = {name: _as_timed(drafts[name], threads) for name in (study.baseline, *names)}
        movable = {name: moves for name, moves in study.movable.items() if name in configs}
        return match_composed(configs, study.baseline, budget, movable, report=report)

    keys, saved = keys_of(study, drafts), SavedMatchings(folder)
    known = saved.known(keys)
    if 0 < len(known) < len(keys):
        refuse_elsewhere(study, _joined(study, budget, known), drafts, folder, threads)
    try:
        matchings = saved.completed(keys, solve)
    except ConfigurationError as error:
        raise ConfigurationError(f"study {study.name}: {error}") from None
    except (RuntimeError, MemoryError) as error:
        raise ConfigurationError(
            f"study {study.name}: the arms could not be matched to budget={study.budget.name}, since one of them "
            f"cannot run here ({' '.join(str(error).split())}): remove it, or choose a budget that is counted"
        ) from None
    return _joined(study, budget, matchings)


def _refuse_early_ends(study: Study, drafts: Mapping[str, Config]) -> None:
    """Refuse runs that may end before what was made equal is spent, unless that is allowed: none would get a verdict
    once they are done."""
    if "budget" in study.allow_unlike:
        return
    for arm, config in drafts.items():
        if (patience := RunConfig(config).patience) is not None:
            raise ConfigurationError(
                f"study {study.name}: trainer.patience={patience} may end runs of {arm} before they have spent what "
                f"budget={study.budget_name} makes equal: set trainer.patience=null, choose budget=equal_parameters, "
                "or compare the arms anyway with allow_unlike=[budget]"
            )


def _joined(study: Study, budget: Budget, matchings: Mapping[str, SavedMatching]) -> Matching:
    """Join the matchings in the order of the study."""
    from headtohead.studies.matching.matching import Matching

    baseline = next(iter(matchings.values())).baseline
    arms = (
        baseline if name == study.baseline else matchings[name].arm
        for name in study.arms
        if name in {study.baseline, *matchings}
    )
    return Matching(budget, study.baseline, baseline.achieved, tuple(arms))


def keys_of(study: Study, drafts: Mapping[str, Config]) -> dict[str, str]:
    """Return a hash for each arm but the baseline, of all that its matching depends on."""
    assert study.budget is not None, "without a budget nothing is matched"
    shared = {"budget": asdict(study.budget), "baseline": _content(drafts[study.baseline])}
    return {
        arm: _hash({**shared, "arm": _content(drafts[arm]), "movable": list(study.movable.get(arm, ()))})
        for arm in study.arms
        if arm != study.baseline
    }


def refuse_unmatched(study: Study, drafts: Mapping[str, Config], folder: Path) -> None:
    """Refuse unmatched arms before the runs are divided among machines without a shared folder: each machine would
    measure times of its own."""
    from headtohead.studies.matching.matching import FOLDER, SavedMatchings

    if study.budget_name not in MEASURED_BUDGETS:
        return
    known = SavedMatchings(folder)
    if not all(known.has(key) for key in keys_of(study, drafts).values()):
        raise ConfigurationError(
            f"study {study.name}: budget={study.budget_name} is measured once, and shards would measure it apart: call "
            f"`h2h study {study.name} --plan` first, and copy {folder / FOLDER} to every machine"
        )


def refuse_elsewhere(
    study: Study, matching: Matching, drafts: Mapping[str, Config], folder: Path, threads: int | None
) -> None:
    """Refuse to run on another device, or with other threads, than those on which the arms were timed."""
    from headtohead.studies.matching.matching import FOLDER, conditions_here, timed_elsewhere

    here = conditions_here(drafts[study.baseline], threads)
    there = timed_elsewhere(matching, here)
    if there is None:
        return
    again = "" if there.threads in (None, here.threads) else f" (--threads {there.threads})"
    raise ConfigurationError(
        f"study {study.name}: its arms were timed {there.text}, and its runs would be made {here.text}, where the same "
        f"steps take other times: continue under the conditions they were timed under{again}, or remove "
        f"{folder / FOLDER} "
        "to time them again, with runs of their own"
    )


def refuse_unmet(study: Study, matching: Matching) -> None:
    """Refuse arms of which no shape meets the budget, unless that is allowed."""
    unmet = [arm for arm in matching.arms if not arm.met]
    if not unmet or "budget" in study.allow_unlike or study.budget is None:
        return
    reasons = ". ".join(f"{arm.name}: {arm.reason}" for arm in unmet)
    raise ConfigurationError(
        f"study {study.name}: budget={study.budget.name} is not met. {reasons}. Let other fields change (movable), "
        "choose another budget, or compare the arms anyway with allow_unlike=[budget]"
    )


def _as_timed(config: Config, threads: int | None) -> dict[str, Any]:
    """Return the configuration for timing: with the threads of its runs, and one seed whatever seeds the study has."""
    trainer = {**RunConfig(config).trainer, "threads": RunConfig(config).threads or threads}
    return {**config, "seed": 0, "trainer": trainer}


def _content(config: Config) -> str:
    return run_id({**config, "seed": None})


def _hash(content: Mapping[str, object]) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]
