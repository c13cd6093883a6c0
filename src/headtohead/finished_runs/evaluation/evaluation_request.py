"""Describe the evaluation of a finished run (a split, lengths, a stride, overrides), and refuse what is impossible."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.architectures.architecture import Architecture, InputSize
from headtohead.architectures.head_names import NEXT_TOKEN_HEADS
from headtohead.config.compose.composition import compose
from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_weights import build_data
from headtohead.config.origins.revised_run import revised
from headtohead.config.rules.config_view import ConfigView
from headtohead.config.rules.data_rules import check_fields, fit
from headtohead.config.run_config import RunConfig
from headtohead.config.schema.source_code import class_value
from headtohead.data.data_source import DataKind, DataSource, DataSpec, SplitName
from headtohead.finished_runs.finished_run import FinishedRun
from headtohead.records.run_folder import TOKENIZER
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.task import Task
from headtohead.training.loop.precision import Precision, precision_in_use

_log = logging.getLogger(__name__)
_OF_CORPORA = "context_length"
_LENGTH_FIELDS = (_OF_CORPORA, "length")
"""Fields of data that say how long its rows are."""
WITHOUT_ROWS = ("batch_size", "bucket_by_length", "keep_gigabytes")
"""Fields of data that change no row: they say how rows are read."""


@dataclass(frozen=True)
class EvaluationRequest:
    """All that an evaluation is asked."""

    split: SplitName = "test"
    lengths: tuple[int, ...] = ()
    """Tokens that the model shall read at once, one pass for each; empty: as in training."""
    stride: int | None = None
    """Windows start so many tokens apart, each token scored once; None: rows that do not overlap."""
    overrides: tuple[str, ...] = ()
    config_dir: str | Path | None = None
    shots: tuple[int, ...] | None = None
    """Examples in the prompts of a language model that is asked for classes, one pass for each; None: its own task."""
    by_position: bool = False
    """The loss by number of tokens in sight, too."""

    def __post_init__(self) -> None:
        if self.shots is not None and (not self.shots or min(self.shots) < 0):
            raise ConfigurationError(f"--shots {self.shots} must be 0 or more: 0 shows no example, 0,1,4 asks thrice")
        for length in self.lengths:
            if length < 1:
                raise ConfigurationError(f"--length {length} is refused: give 1 or more")
            if self.stride is not None and not 1 <= self.stride <= length:
                raise ConfigurationError(
                    f"--stride {self.stride} does not fit windows of {length} tokens: give 1 to {length}, so that no "
                    "token is skipped"
                )

    def gives(self, field: str) -> bool:
        return field in map(key_of, self.overrides)

    def precision(self, config: Mapping[str, Any], device_type: str) -> Precision:
        """Return the one that is requested; else that in which a finished run is used."""
        if self.gives("precision") or self.gives("precision.name"):
            return Precision(config["precision"]["name"]).on(device_type)
        return Precision(precision_in_use(config))

    @property
    def has_other_data(self) -> bool:
        """Return whether the texts may differ from those on which the run's tokenizer was trained."""
        keys = [key_of(override) for override in self.overrides]
        same = {f"data.{name}" for name in (*_LENGTH_FIELDS, *WITHOUT_ROWS, "packing")}
        return any(key.startswith("data") and key not in same for key in keys)


def fields_of_rows(config: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of the data that decide which rows it has."""
    return {name: value for name, value in RunConfig(config).data.items() if name not in WITHOUT_ROWS}


def trained_length(run: FinishedRun) -> int | None:
    """Tokens that the model read at once in training, where the data's rows have a length of their own."""
    data = RunConfig(run.config).data
    lengths = [data[name] for name in _LENGTH_FIELDS if data.get(name)]
    return int(lengths[0]) if lengths else None


def at_length(
    config: Mapping[str, Any], question: EvaluationRequest, length: int | None, trained: int | None
) -> dict[str, Any]:
    """The configuration whose rows have this length. A rotary scaling that the run was not trained with stretches as
    far as the length asks, unless its factor is given."""
    changed = deepcopy(dict(config))
    if length is None:
        return changed
    data = changed["data"]
    field = next((name for name in _LENGTH_FIELDS if name in data), None)
    if field is None:
        raise _no_effect(config, length, "have a fixed length", "leave it out")
    data[field] = length
    position = changed["model"].get("position") or {}
    swapped = question.gives("model/position") and not question.gives("model.position.factor")
    if trained and swapped and "factor" in position:
        position["factor"] = max(1.0, length / trained)
    return changed


def check_length(config: Mapping[str, object], spec: DataSpec, length: int | None) -> None:
    """Raise ConfigurationError where a length is requested of rows that are not cut from a corpus: what they hold is
    known once they have been read."""
    if length is not None and spec.kind != "language" and _OF_CORPORA in RunConfig(config).data:
        raise _no_effect(config, length, "are as long as their texts", "leave it out, or cut them by data.max_length")


def check_fields_given(config: Mapping[str, object], data: DataSource, question: EvaluationRequest) -> None:
    """Refuse what was typed and does nothing; fields that other data took over from the run's own are not meant."""
    if any(question.gives(f"data.{field}") for field in data.ignored_fields()):
        check_fields(config, data)


def _no_effect(config: Mapping[str, object], length: int, rows: str, way: str) -> ConfigurationError:
    chosen = ConfigView(config).chosen("data")
    return ConfigurationError(f"--length {length} has no effect on {chosen}, whose rows {rows}: {way}")


def data_of(run: FinishedRun, config: Mapping[str, object], question: EvaluationRequest) -> DataSource:
    """Other texts are read with the run's own tokenizer."""
    _check_tokenizer(run, RunConfig(config).data, question)
    if question.has_other_data or run.config.get("init_from"):
        return build_data({**config, "init_from": str(run.folder), "resume_from": None})
    return build_data(config)


def _check_tokenizer(run: FinishedRun, data: Mapping[str, object], question: EvaluationRequest) -> None:
    """Refuses another one, which no text would be read with."""
    for field in ("tokenizer", "vocab_size"):
        typed, own = data.get(field), RunConfig(run.config).data.get(field)
        if question.gives(f"data.{field}") and typed != own and (run.folder / TOKENIZER).exists():
            raise ConfigurationError(
                f"data.{field}={typed} cannot be changed: the run reads text with its own tokenizer; leave it "
                "out, or train a run with the other one (compared in bits per byte)"
            )


def check_data(run: FinishedRun, config: Mapping[str, object], spec: DataSpec) -> None:
    """Raises ConfigurationError where rows would mean other things than the run learned; a language model has learned
    no classes, whatever data it is asked about."""
    trained, data = run.record.comparability.tokenizer, ConfigView(config).chosen("data")
    if (trained or "") != spec.tokenizer_hash:
        raise ConfigurationError(_other_tokens(data, reads_text=bool(trained), is_text=bool(spec.tokenizer_hash)))
    if class_value(RunConfig(config).task_target, "head") not in NEXT_TOKEN_HEADS:
        _check_classes(run, config, spec, data)
    _check_label_words(run, spec, data)
    # Lengths are checked against the model's own reach, which tables alone limit.
    model = RunConfig(config).model
    free = {**model, **dict.fromkeys(("max_length", "max_target_length"))}
    fit({**config, "model": {name: value for name, value in free.items() if name in model}}, spec)


def _other_tokens(data: str, *, reads_text: bool, is_text: bool) -> str:
    if not is_text:
        return f"{data} holds symbols of its own, and this run was trained on text: give data of text"
    if not reads_text:
        return f"{data} is text, and this run was trained on symbols, which stand for no words: give data of its kind"
    return (
        f"{data} makes other tokens of text than this run was trained on, and the run has no tokenizer of its own in "
        "its folder: give data of the same tokens, for example data.tokenizer=byte for a run with bytes"
    )


def _check_classes(run: FinishedRun, config: Mapping[str, object], spec: DataSpec, data: str) -> None:
    trained_classes = (RunConfig(run.config).num_classes or 0) if spec.num_classes else 0
    if spec.num_classes != trained_classes and RunConfig(run.config).data_target != RunConfig(config).data_target:
        raise ConfigurationError(
            f"{data} has {spec.num_classes} classes and this run was trained on {trained_classes}: give data of the "
            "same classes"
        )
    _check_class_names(run, config, spec, data)


def _check_class_names(run: FinishedRun, config: Mapping[str, object], spec: DataSpec, data: str) -> None:
    """Classes go by their numbers: a name that both have must have one number; other names for the
    same numbers are reported."""
    trained, names = list(run.record.data.get("classes") or ()), list(spec.class_names)
    if not trained or not names or trained == names:
        return
    classes = f"the classes of {data} are {_shown(names)}, and this run was trained on {_shown(trained)}"
    if len(trained) != len(names):
        raise ConfigurationError(f"{classes}: give data of the same classes")
    if any(name in trained and trained.index(name) != number for number, name in enumerate(names)):
        has_names = set(trained) == set(names) and "class_names" in RunConfig(config).data
        field = f"data.class_names=[{','.join(trained)}]" if has_names else "data with its order"
        raise ConfigurationError(f"{classes}, in another order: give {field}")
    _log.warning("%s: they are matched in this order", classes)


def _check_label_words(run: FinishedRun, spec: DataSpec, data: str) -> None:
    """Labels that are written have no numbers, and other data may lack some: those that the run never wrote are
    refused, since none of their rows can be right."""
    trained = list(run.record.data.get("classes") or ())
    unknown = [word for word in spec.label_words if word not in trained]
    if trained and unknown:
        raise ConfigurationError(
            f"{data} has labels that this run has not learned to write, {_shown(unknown)}, beside its own, "
            f"{_shown(trained)}: give data of the same labels, or their words in data.label_words"
        )


def _shown(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" ... ({len(names)})" if len(names) > 10 else "")


def check_stride(task: Task, config: Mapping[str, object], stride: int | None) -> None:
    if stride is not None and not isinstance(task, CausalLanguageModelling):
        raise ConfigurationError(
            f"--stride {stride} slides windows over text to predict next tokens, and "
            f"{ConfigView(config).chosen('task')} predicts something else: leave it out"
        )


def check_reach(
    model: Architecture, size: InputSize, trained: int | None, config: Mapping[str, Any], kind: DataKind
) -> None:
    """Raises ConfigurationError where the model's weights end before the rows do."""
    if (reason := model.length_error(size)) is None:
        return
    windows = f", --length {trained} --stride {max(1, trained // 2)}" if trained else " as long as in training"
    way = f"read long text in windows that overlap{windows}"
    longest = RunConfig(config).max_length
    if kind != "language" and "max_length" in RunConfig(config).data and longest:
        way = f"cut its rows to what the model reads, data.max_length={longest}"
    raise ConfigurationError(
        f"{reason}: {way}, or train with positions that extrapolate (model/position=alibi, rotary, sinusoidal)"
    )


TASK = "multiple_choice"
_OF_TASK = "task."


def prompted(
    config: Mapping[str, Any], overrides: Sequence[str], config_dir: str | Path | None = None
) -> dict[str, Any]:
    """The run's configuration under task=multiple_choice, checked; raises ConfigurationError for models without a next
    token."""
    if class_value(RunConfig(config).task_target, "head") not in NEXT_TOKEN_HEADS:
        raise ConfigurationError(
            f"--shots compares probabilities of words after a prompt, and {ConfigView(config).chosen('task')} of "
            f"this run predicts no next token: give a run of task=causal_lm or task={TASK}"
        )
    of_task = [override for override in overrides if key_of(override).startswith(_OF_TASK)]
    composed = compose("train", [f"task={TASK}", *of_task], config_dir)
    choices = {**(config.get("choices") or {}), "task": TASK}
    changed = {**deepcopy(dict(config)), "task": composed["task"], "choices": choices}
    return revised(changed, [override for override in overrides if override not in of_task], config_dir)


def with_shots(config: Mapping[str, object], shots: int | None) -> dict[str, Any]:
    """Nothing changes without a number."""
    return dict(config) if shots is None else {**config, "task": {**RunConfig(config).task, "shots": shots}}
