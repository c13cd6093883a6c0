"""A new study from data: described, its arms composed, its minutes estimated, its file written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.api.error_translation import python_errors_with
from headtohead.config.compose.composition import compose_checked, model_for
from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError
from headtohead.errors import UsageError
from headtohead.execution.launchers.worker_commands import workers_for
from headtohead.files.atomic_write import replace_text
from headtohead.files.user_paths import check_path
from headtohead.ranges import Count
from headtohead.studies.definition.new_study import TEMPLATES, NewStudyRequest, power_words
from headtohead.studies.definition.new_study import new_study as make_study
from headtohead.studies.definition.read_study_file import is_own_field, read_study, study_from
from headtohead.studies.definition.study import Study
from headtohead.studies.planning.study_plan import StudyPlanner

if TYPE_CHECKING:
    from headtohead.data.data_source import DataSource

_WRITTEN = ("language", "pairs_of_text")
"""Kinds of data of which a model predicts the tokens themselves."""


@dataclass(frozen=True)
class WrittenFile:
    """A study's file, and the lines that open it."""

    file: Path
    """The YAML file, to be edited and run."""
    about: tuple[str, ...]
    """Sentences about the data, the arms and what the study takes."""


@python_errors_with(force="replace_file", arm="arms", **{"from": "start"})
def new_study(
    name: str,
    path: str | Path | None = None,
    overrides: Sequence[str] = (),
    *,
    start: str | None = None,
    arms: Mapping[str, Sequence[str]] | None = None,
    seeds: Count = 5,
    config_dir: str | Path | None = None,
    replace_file: bool = False,
) -> WrittenFile:
    """Look at data, a path or overrides that name some, and write NAME.yaml: a study of them that runs.

    Arms are those given, those of the shipped study `start`, or two networks that are usual for the task. The file
    opens with the task, chance, what so many seeds can show, and the minutes that the study will take here:
    `h2h.study(h2h.new_study("reviews", "reviews.csv").file)`.
    """
    file = Path(f"{name}.yaml")
    if file.exists() and not replace_file:
        raise ConfigurationError(f"{file} exists: choose another name, or give --force to replace it")
    if start is not None:
        read_study(start, (), config_dir)  # a wrong name is refused before the data are looked at
    own = [word for word in overrides if is_own_field(word)]
    typed = [word for word in overrides if word not in own]
    data = _data_overrides(path, typed)
    if "data.max_length" not in map(key_of, overrides) and any(map(_starts_from_weights, (arms or {}).values())):
        data = [word for word in data if key_of(word) != "data.max_length"]  # what the weights know decides
    config = compose_checked("train", data, config_dir)
    task = str(config["choices"]["task"])
    if task not in TEMPLATES:
        raise UsageError(f"there is no usual question for task={task}: choose one of {', '.join(TEMPLATES)}")
    source = _built(config)
    rows = len(source.split("train"))
    request = NewStudyRequest(start, dict(arms or {}), seeds, config_dir, own, typed)
    test_rows = len(source.split("test"))
    made = make_study(name, request, task=task, data=data, rows=rows, test_rows=test_rows)
    study = study_from(name, dict(made.fields))
    about = (
        f"{task} on {rows:,} rows for training, {len(source.split('validation')):,} for validation and "
        f"{test_rows:,} for the test; {chance_words(source, task)}",
        power_words(len(study.seeds)),
        *made.remarks,
        *_costs(study, config_dir),
    )
    replace_text(file, made.text(about))
    return WrittenFile(file, about)


def _data_overrides(path: str | Path | None, overrides: Sequence[str]) -> list[str]:
    """Return the overrides for what lies at the path, those given behind them; without a path, those given, with the
    task and the columns that a look at data.path suggests."""
    by_key = {key_of(word): word for word in overrides}
    named = by_key.get("data.path", "").partition("=")[2] if path is None else str(path)
    if not named:
        if "data" not in by_key:
            raise UsageError("there are no data: give a file or a folder, or overrides that name some, data=sst2")
        if "task" not in by_key or "model" in by_key:
            return list(overrides)
        return [*overrides, f"model={model_for(by_key['task'].partition('=')[2])}"]
    check_path(named, "" if path is not None else "data.path")
    from headtohead.diagnostics.data_description import describe  # torch waits until nothing above is refused
    from headtohead.diagnostics.described_data import reading_options, reads_by

    described = describe(named, reading_options([word for word in overrides if reads_by(word)]))
    choice = by_key.get("data", f"data={described.choice}").partition("=")[2]
    seen = described.overrides if choice == described.choice else ()
    return [*(word for word in seen if key_of(word) not in by_key), *overrides]


def _starts_from_weights(arm: Sequence[str]) -> bool:
    return any(key_of(word) == "init_from" for word in arm)


def _built(config: Mapping[str, object]) -> DataSource:
    from headtohead.config.origins.from_weights import build_data

    return build_data(config)


_CLASSIFYING = ("classification", "image_classification")


def chance_words(source: DataSource, task: str) -> str:
    """Return what a guess scores that reads nothing, in the terms of what the task predicts."""
    from math import log

    spec = source.spec()
    if spec.class_shares and task == "tagging":
        return f"the most frequent tag is that of {max(spec.class_shares):.3f} of the words"
    if spec.class_shares and task in _CLASSIFYING:
        return f"naming the most frequent class every time is right for {max(spec.class_shares):.3f} of them"
    if spec.vocab_size and spec.kind in _WRITTEN:
        return f"a guess among all {spec.vocab_size:,} tokens has a loss of {log(spec.vocab_size):.2f}"
    return "what a guess scores is not known before the first run"


def _costs(study: Study, config_dir: str | Path | None) -> tuple[str, ...]:
    """Time the steps of each arm and return how long the whole takes here, as the plan of the study says it."""
    from headtohead.studies.planning.cost_estimate import estimate
    from headtohead.studies.results.study_tables import totals

    one, _ = workers_for((), config_dir=config_dir)
    plan = StudyPlanner(study, config_dir, threads=one.threads).plan()
    return tuple(totals(study, estimate(plan, threads=one.threads), one.number))
