"""A new study from data: described, its arms composed, its minutes estimated, its file written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.api.spoken_errors import speaks_python
from headtohead.config.compose.composition import compose_checked, model_for
from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError
from headtohead.data.data_source import DataSource
from headtohead.diagnostics.data_description import describe
from headtohead.diagnostics.described_data import reading_options, reads_by
from headtohead.errors import UsageError
from headtohead.files.atomic_write import replace_text
from headtohead.studies.definition.new_study import CONTESTS, ContestRequest, new_study, power_words
from headtohead.studies.definition.read_study_file import is_own_field, study_from
from headtohead.studies.definition.study import Study
from headtohead.studies.planning.cost_estimate import estimate
from headtohead.studies.planning.study_plan import StudyPlanner
from headtohead.studies.results.study_tables import duration


@dataclass(frozen=True)
class WrittenFile:
    """A study's file, and the lines that open it."""

    file: Path
    about: tuple[str, ...]


@speaks_python
def write_new_study(
    name: str,
    path: str | Path | None = None,
    overrides: Sequence[str] = (),
    *,
    start: str | None = None,
    arms: Mapping[str, Sequence[str]] | None = None,
    seeds: int = 5,
    config_dir: str | Path | None = None,
    replace_file: bool = False,
) -> WrittenFile:
    """Look at data, a path or overrides that name some, and write NAME.yaml: a study of them that runs.

    Arms are those given, those of the shipped study `start`, or two networks that are usual for the task. The file
    opens with the task, chance, what so many seeds can show, and the minutes that the study will take here.
    """
    file = Path(f"{name}.yaml")
    if file.exists() and not replace_file:
        raise ConfigurationError(f"{file} exists: choose another name, or give --force to replace it")
    own = [word for word in overrides if is_own_field(word)]
    typed = [word for word in overrides if word not in own]
    data = _data_overrides(path, typed)
    if "data.max_length" not in map(key_of, overrides) and any(map(_starts_from_weights, (arms or {}).values())):
        data = [word for word in data if key_of(word) != "data.max_length"]  # what the weights know decides
    config = compose_checked("train", data, config_dir)
    task = str(config["choices"]["task"])
    if task not in CONTESTS:
        raise UsageError(f"there is no usual question for task={task}: choose one of {', '.join(CONTESTS)}")
    source = _built(config)
    rows = len(source.split("train"))
    request = ContestRequest(start, dict(arms or {}), seeds, config_dir, own, typed)
    made = new_study(name, request, task=task, data=data, rows=rows)
    study = study_from(name, dict(made.fields))
    about = (
        f"{task} on {rows:,} rows for training, {len(source.split('validation')):,} for validation and "
        f"{len(source.split('test')):,} for the test; {_chance(source, task)}",
        power_words(len(study.seeds)),
        _minutes(study, config_dir),
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
    described = describe(named, reading_options([word for word in overrides if reads_by(word)]))
    choice = by_key.get("data", f"data={described.choice}").partition("=")[2]
    seen = described.overrides if choice == described.choice else ()
    return [*(word for word in seen if key_of(word) not in by_key), *overrides]


def _starts_from_weights(arm: Sequence[str]) -> bool:
    return any(key_of(word) == "init_from" for word in arm)


def _built(config: Mapping[str, object]) -> DataSource:
    from headtohead.config.origins.from_weights import build_data

    return build_data(config)


def _chance(source: DataSource, task: str) -> str:
    from math import log

    spec = source.spec()
    if spec.class_shares and task != "tagging":
        return f"the most frequent class is {max(spec.class_shares):.3f} of them, which is chance"
    if spec.vocab_size:
        return f"a guess among all {spec.vocab_size:,} tokens has a loss of {log(spec.vocab_size):.2f}"
    return "what a guess scores is not known before the first run"


def _minutes(study: Study, config_dir: str | Path | None) -> str:
    """Time the steps of each arm and return how long the whole takes here, one run after the other."""
    plan = StudyPlanner(study, config_dir).plan()
    estimated = estimate(plan)
    return f"{plan.num_runs} runs, about {duration(estimated.seconds)} on this machine, one after the other"
