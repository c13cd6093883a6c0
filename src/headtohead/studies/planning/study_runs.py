"""The runs that a study is made of, each from the arm, the seed and what a budget or a tuning adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError, unknown
from headtohead.config.rules.config_view import ConfigView
from headtohead.config.run_config import RunConfig
from headtohead.config.run_id import run_id
from headtohead.config.schema.metric_names import better_direction, metric_names
from headtohead.execution.run_spec import RunSpec, refuse_several_machines, run_name_of
from headtohead.execution.tuning import Tuning
from headtohead.metrics import direction_error
from headtohead.studies.definition.replaced_choices import lost_fields
from headtohead.studies.definition.study import FIELD, SPLIT_FIELD, FoundationRun, Study, without_foundation

_OFFSET = 2000
"""The distance of seeds that errors propose: trials are of seeds from 1000 on unless a study says otherwise."""
_IN_STEPS = ("schedule.warmup", "schedule.decay")
"""Numbers of steps where they are not below 1."""


class StudyRuns:
    """Makes the runs of one study."""

    def __init__(
        self,
        study: Study,
        compose: Callable[[tuple[str, ...]], Mapping[str, object]],
        config_dir: str | Path | None = None,
    ) -> None:
        self._study, self._compose, self._config_dir = study, compose, config_dir

    def of(
        self,
        arm: str,
        seed: int,
        added: Sequence[str] = (),
        *,
        trial: int | None = None,
        share: float = 1.0,
        start: FoundationRun | None = None,
    ) -> RunSpec:
        """added comes after the overrides of the arm: what a budget, a tuning or a place on an axis asks of it."""
        start_overrides = () if start is None else (start.override,)
        overrides = overrides_of(self._study, arm, seed, (*start_overrides, *added), trial=trial, share=share)
        config = self._composed(arm, overrides)
        of_the_id = config if start is None else {**config, FIELD: start.id}
        return RunSpec(arm, seed, overrides, config, run_id(of_the_id), self._study.name, trial, share)

    def foundation(self, name: str, seed: int) -> RunSpec:
        """Return the foundation that arms start from; they need its best weights. What it chooses again, such as other
        data, goes without the base's fields of the first choice; a base by which every arm starts from a foundation
        is that of arms."""
        own, base = self._study.foundations[name], without_foundation(self._study.base)
        lost = lost_fields(base, own, self._config_dir)
        made = (*(override for override in base if override not in lost), *own)
        made_with = (*made, "trainer.keep_checkpoints=best", *split_of(self._study, seed), f"seed={seed}")
        last = {key_of(override): override for override in made_with}
        overrides = (*last.values(), f"name={run_name_of(name, seed)}", f"group={self._study.name}")
        config = self._composed(name, overrides)
        return RunSpec(name, seed, overrides, config, run_id(config), self._study.name, is_foundation=True)

    def _composed(self, arm: str, overrides: tuple[str, ...]) -> Mapping[str, object]:
        try:
            config = self._compose(overrides)
        except ConfigurationError as error:
            raise ConfigurationError(f"study {self._study.name}, arm {arm}: {error}") from None
        refuse_several_machines(config, f"study {self._study.name}, arm {arm}")
        return config


def overrides_of(
    study: Study, arm: str, seed: int, added: Sequence[str] = (), *, trial: int | None = None, share: float = 1.0
) -> tuple[str, ...]:
    """Return the overrides that make the run with `h2h train`; of two values for one field the later counts. Trials
    skip the tests on longer rows."""
    longer = study.lengths if trial is None else ()
    lengths = [f"evaluation.lengths=[{','.join(map(str, longer))}]"] if longer else []
    own = f"seed={seed + study.seed_offsets.get(arm, 0)}"
    overrides = (*study.base, *lengths, *study.arms[arm], *added, *split_of(study, seed), own)
    last = {key_of(override): override for override in without_foundation(overrides)}
    return (*last.values(), f"name={run_name_of(arm, seed, trial, share)}", f"group={study.name}")


def split_of(study: Study, seed: int) -> tuple[str, ...]:
    """Return the rows of each split, the same in every arm: drawn by the seed where the study says so."""
    return (f"{SPLIT_FIELD}={seed}",) if "split" in study.vary else ()


def shortened(config: Mapping[str, object], steps: int) -> tuple[str, ...]:
    """Overrides that make a whole run of so many steps: what is counted in steps keeps its place in the run. A run that
    takes none stays as it is."""
    whole: int = RunConfig(config).max_steps
    if steps == whole or not whole:
        return ()
    validate_every = max(1, round(RunConfig(config).validate_every * steps / whole))
    counted = [
        f"{path}={max(1, round(value * steps / whole))}"
        for path in _IN_STEPS
        if (value := RunConfig(config).schedule.get(path.partition(".")[2])) is not None and value >= 1
    ]
    return (f"trainer.max_steps={steps}", f"trainer.validate_every={validate_every}", *counted)


LeftOut = tuple[tuple[str, str], ...]
"""Arms that cannot be, and why."""


def without_the_impossible(study: Study, build: Callable[[str], object]) -> tuple[Study, LeftOut]:
    """Drop arms that build cannot compose; a base that cannot be composed is an error, since all is compared with
    it."""
    if study.ablation is None:
        return study, ()
    left_out = []
    for arm in study.ablation.design():
        try:
            build(arm)
        except ConfigurationError as error:
            if arm == study.baseline:
                raise
            left_out.append((arm, str(error).removeprefix(f"study {study.name}, arm {arm}: ")))
    return _without(study, {arm for arm, _ in left_out}), tuple(left_out)


def refuse_impossible_layers(study: Study, written: Mapping[str, Mapping[str, object]]) -> None:
    """Refuse layers that cannot be made by the arm that has them, before the first run of any."""
    from headtohead.config.layer_check import layers_error  # it imports torch

    for arm, config in written.items():
        if (why := layers_error(config)) is not None:
            raise ConfigurationError(f"study {study.name}, arm {arm}: {why}")


def _without(study: Study, gone: set[str]) -> Study:
    remaining: dict[str, Any] = {
        name: {arm: value for arm, value in getattr(study, name).items() if arm not in gone}
        for name in ("arms", "movable", "expected", "seed_offsets")
    }
    contrasts = tuple(pair for pair in study.contrasts if not gone & set(pair))
    left = replace(study, contrasts=contrasts, **remaining)
    if len(left.arms) < 2:
        raise ConfigurationError(
            f"study {study.name}: of the ablation only {', '.join(left.arms)} can be built: nothing to compare"
        )
    return left


def refuse_shares_of_fits(study: Study, written: Mapping[str, Mapping[str, object]]) -> None:
    fitted = [arm for arm, config in written.items() if not ConfigView(config).trained_by_steps]
    if fitted and len(study.shares) > 1:
        raise ConfigurationError(
            f"study {study.name}: shares={list(study.shares)} shorten runs, and {fitted[0]} is fitted in one step: "
            "remove the shares or the arm"
        )


_MOST_OFF = 0.1
"""The most that the steps of a run may be from its share of the budget, as a part of it."""


def steps_of(share: float, max_steps: int, *, arm: str, study: str) -> int:
    """Return the steps of a run on a share of the budget; refuse a share that no whole number of steps is near to."""
    if max_steps == 0:  # an arm that is measured as it is
        return 0
    steps = max(1, round(share * max_steps))
    if abs(steps - share * max_steps) <= _MOST_OFF * share * max_steps:
        return steps
    raise ConfigurationError(
        f"study {study}: the share {share:g} of the {max_steps} steps of {arm} is {share * max_steps:.3g} steps, and "
        f"{steps} would be {steps / max_steps:.3g} of them: give shares of whole steps, such as {steps / max_steps:g}, "
        "or more trainer.max_steps"
    )


def refuse_duplicates(study: Study, runs: Sequence[RunSpec]) -> None:
    first: dict[str, RunSpec] = {}
    for run in runs:
        counterpart = first.setdefault(run.id, run)
        if counterpart is run:
            continue
        if counterpart.arm == run.arm and counterpart.seed == run.seed:
            raise ConfigurationError(
                f"study {study.name}: the shares {counterpart.share:g} and {run.share:g} are as many steps of "
                f"{run.arm}: remove one"
            )
        raise ConfigurationError(
            f"study {study.name}: arms {counterpart.arm} and {run.arm} are the same run (seeds {counterpart.seed} and "
            f"{run.seed}): change one, or give seed_offsets: {{{run.arm}: {_OFFSET}}} to compare an arm with itself"
        )


def refuse_alike_once_tuned(
    study: Study, trials: Mapping[str, Sequence[RunSpec]], tuned: Callable[[str], RunSpec]
) -> None:
    """Refuse arms that only a tuned field tells apart, before their trials are run: these would choose the same for
    both. `tuned` makes an arm's run with one of the settings."""
    first: dict[tuple[str, ...], str] = {}
    for arm, runs in trials.items():
        other = first.setdefault(tuple(run.id for run in runs), arm)
        if not runs or other == arm or tuned(arm).id != tuned(other).id:
            continue
        fields = study.tuning.space if isinstance(study.tuning, Tuning) else {}
        own = {key_of(override) for name in (arm, other) for override in study.arms[name]}
        set_alike = " and ".join(key for key in fields if key in own)
        why = f" but for {set_alike}, which the tuning sets" if set_alike else ""
        way_out = f"take {set_alike} out of tuning.space" if set_alike else "change one"
        raise ConfigurationError(
            f"study {study.name}: arms {other} and {arm} are the same{why}: {way_out}, or give seed_offsets: "
            f"{{{arm}: {_OFFSET}}} to compare an arm with itself"
        )


def check_metric(study: Study, written: Mapping[str, Mapping[str, object]]) -> None:
    """Refuse an unknown metric, or one that is judged the wrong way round, before the first run rather than after the
    last."""
    metrics, directions = {"metric": study.metric}, {"direction": (study.metric, study.direction)}
    if isinstance(study.tuning, Tuning) and study.tuning.metric is not None:
        metrics["tuning.metric"] = study.tuning.metric
        if study.tuning.direction is not None:
            directions["tuning.direction"] = (study.tuning.metric, study.tuning.direction)
    for arm, config in written.items():
        known = metric_names(RunConfig(config).task_target)
        for key, metric in metrics.items():
            name = metric.partition("/")[2]
            if known and name not in known:
                message = unknown(f"{key}={metric} is not measured by arm {arm}", name, sorted(known))
                raise ConfigurationError(f"study {study.name}: {message}")
        for key, (metric, direction) in directions.items():
            better = better_direction(config, metric)
            if why := direction_error(metric, direction, better):
                raise ConfigurationError(f"study {study.name}: {key}={direction}, and {why}: give {key}={better}")
