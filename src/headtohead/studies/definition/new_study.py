"""A study that begins with the user's own data: `h2h study new NAME reviews.csv` writes a file that runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headtohead.comparison.statistics.power import detectable_effect
from headtohead.config.compose.choices import choices
from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError
from headtohead.config.schema.source_code import class_value
from headtohead.metrics import own_metric
from headtohead.studies.definition.read_study_file import read_study, study_from, with_own_fields
from headtohead.studies.definition.study import Study
from headtohead.studies.definition.tuning_field import UNTUNED

_WIDTH = 110
_USUAL_TASK = "causal_lm"
"""The task of runs that name none."""
_STEPS_MOST, _STEPS_LEAST, _EPOCHS = 2000, 200, 3
_BATCH, _BATCH_TOKENS = 32, 4096
_LEARNED, _ROTARY = (("model=encoder_only", f"model/position={name}") for name in ("learned", "rotary"))


@dataclass(frozen=True)
class StudyTemplate:
    """A study template is the usual question of a task: two networks, and the metric by which they are judged."""

    question: str
    arms: Mapping[str, Sequence[str]]
    metric: str
    direction: str
    margin: float


TEMPLATES: Mapping[str, StudyTemplate] = {
    "causal_lm": StudyTemplate(
        "Does a transformer predict this text better than an LSTM, after as many tokens?",
        {"lstm": ["model=recurrent", "model/mixer=lstm"], "transformer": ["model=decoder_only"]},
        "test/loss", "min", 0.02,
    ),
    "classification": StudyTemplate(
        "Does a transformer classify these texts better than a bag of words?",
        {"bag_of_words": ["model=bag_of_words"], "transformer": ["model=encoder_only"]},
        "test/accuracy", "max", 0.02,
    ),
    "tagging": StudyTemplate(
        "Does a transformer tag these words better than an LSTM that reads both ways?",
        {"lstm": ["model=recurrent", "model.bidirectional=true"], "transformer": ["model=encoder_only"]},
        "test/entity_f1", "max", 0.02,
    ),
    "seq2seq": StudyTemplate(
        "Does a transformer translate these pairs better than a recurrent network?",
        {"recurrent": ["model=recurrent_encoder_decoder"], "transformer": ["model=encoder_decoder"]},
        "test/loss", "min", 0.02,
    ),
    "image_classification": StudyTemplate(
        "Does a vision transformer classify these images better than convolutions?",
        {"convolutions": ["model=cnn"], "transformer": ["model=vision_transformer"]},
        "test/accuracy", "max", 0.02,
    ),
    "similarity": StudyTemplate(
        "Do rotary positions help a transformer to grade these texts?",
        {"learned": _LEARNED, "rotary": _ROTARY},
        "test/loss", "min", 0.02,
    ),
    "span_qa": StudyTemplate(
        "Do rotary positions help a transformer to find these answers?",
        {"learned": _LEARNED, "rotary": _ROTARY},
        "test/f1", "max", 0.02,
    ),
}  # fmt: skip
"""The templates by task; the first arm is the baseline."""


@dataclass(frozen=True)
class NewStudy:
    """The fields of a new study, and what a comment above each of them says."""

    name: str
    fields: Mapping[str, object]
    comments: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    """Sentences about choices that the data made."""

    def text(self, about: Sequence[str]) -> str:
        """Return the file, which opens with these lines."""
        import yaml

        parts = ["".join(f"# {line}\n" for line in about)]
        for key, value in self.fields.items():
            comment = self.comments.get(key)
            flow = None if isinstance(value, Mapping) else False
            written = yaml.safe_dump(
                {key: value}, sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=flow
            )
            parts.append((f"# {comment}\n" if comment else "") + written)
        return "".join(parts)


@dataclass(frozen=True)
class NewStudyRequest:
    """The request for a new study holds what differs from the usual question."""

    start: str | None = None
    """A shipped study whose question is asked of other data."""
    arms: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seeds: int = 5
    config_dir: str | Path | None = None
    own: Sequence[str] = ()
    """Overrides of the study's fields, of which seeds may be one."""
    typed: Sequence[str] = ()
    """Overrides of runs that the user chose, which go before what is usual and what a shipped study has."""


def new_study(
    name: str, request: NewStudyRequest, *, task: str, data: Sequence[str], rows: int, test_rows: int = 0
) -> NewStudy:
    """Return a study of the data that these overrides name, of `rows` for training and others for the test: the arms
    requested, those of the study that it starts from, or two networks that are usual for the task."""
    shipped = None if request.start is None else read_study(request.start, (), request.config_dir)
    arms, seeds = request.arms, request.seeds
    usual = TEMPLATES[task]
    batch = _rows_of_a_batch(data)
    typed = {key_of(word): word.partition("=")[2] for word in request.typed}
    steps = min(_STEPS_MOST, max(_STEPS_LEAST, _EPOCHS * rows // batch // 100 * 100))
    every = int(typed["trainer.max_steps"]) if typed.get("trainer.max_steps", "").isdecimal() else steps
    fewer = () if batch == _BATCH else (f"data.batch_size={batch}",)
    defaults = (
        *fewer, f"trainer.max_steps={steps}", f"trainer.validate_every={max(1, every // 4)}",
        "probe=none", "trainer.num_samples=0", "trainer.keep_checkpoints=none",
    )  # fmt: skip
    if not request.arms and shipped is None:  # each of the usual arms names its model
        data = [word for word in data if key_of(word) != "model"]
    base = [*data, *(word for word in defaults if key_of(word) not in typed)]
    fields: dict[str, object] = {
        "question": usual.question,
        "hypothesis": "Write down what you expect, before the first run.",
        "tuning": UNTUNED,
        "base": base,
        "arms": {arm: list(own) for arm, own in (arms or usual.arms).items()},
        "seeds": seeds,
        "metric": usual.metric,
        "direction": usual.direction,
        "baseline": next(iter(arms or usual.arms)),
        "margin": usual.margin,
        "budget": None if _fitted_at_once(arms or usual.arms) or _has_no_tokens(task) else "equal_tokens",
    }
    if arms:
        fields["question"] = f"Which is better on these data: {' or '.join(arms)}?"
    if shipped is not None:
        fields |= _as_shipped(shipped, task, base, set(typed), changed_arms=bool(arms))
    fields = with_own_fields(name, fields, request.own)
    is_own = any(key_of(word) == "margin" for word in request.own)
    margin, remarks = _shown_margin(study_from(name, dict(fields)), test_rows, is_own=is_own)
    if margin is not None:
        fields["margin"] = margin
    return NewStudy(name, fields, _comments(fields, len(study_from(name, dict(fields)).seeds), remarks), remarks)


def _shown_margin(study: Study, test_rows: int, *, is_own: bool) -> tuple[float | None, tuple[str, ...]]:
    """Return the margin that so many test rows can show, and what is to be said where it is not that of the study: a
    margin of the user's own stays."""
    stage, name = study.stage_and_name
    metric = own_metric(name)
    step = metric.of_one_row(test_rows) if metric is not None and stage == "test" else None
    if study.margin is None or step is None or study.margin >= step:
        return study.margin, ()
    larger = min(1.0, math.ceil(step * 100) / 100)
    one = (
        "the test has one row" if test_rows == 1 else f"one of {test_rows:,} test rows is {step:.3g} of {study.metric}"
    )
    more = "more test rows (data.test_share, or a split of their own)"
    if is_own:
        return study.margin, (f"{one}, more than margin={study.margin:g}: take margin={larger:g} or {more}",)
    return larger, (f"{one}, so margin={larger:g}; for a smaller one take {more}",)


def _fitted_at_once(arms: Mapping[str, Sequence[str]]) -> bool:
    """Return whether an arm is fitted to all its rows in one step, so that no budget can be equal."""
    return any("model=bag_of_words" in own for own in arms.values())


def _has_no_tokens(task: str) -> bool:
    """Return whether the rows of a task are images, of which no arm could have equally many tokens."""
    return all(class_value(each.target, "data_kinds") == ("images",) for each in choices("task") if each.name == task)


def _rows_of_a_batch(data: Sequence[str]) -> int:
    """Return as many rows as a batch usually has; where rows are long, fewer, so that it has as many tokens."""
    fields = {key_of(word): word.partition("=")[2] for word in data}
    length = fields.get("data.context_length", "")
    if "data.batch_size" in fields or "trainer.batch_tokens" in fields or not length.isdecimal():
        return _BATCH
    return max(1, min(_BATCH, _BATCH_TOKENS // max(1, int(length))))


def _as_shipped(
    shipped: Study, task: str, base: Sequence[str], typed: Collection[str], *, changed_arms: bool
) -> dict[str, object]:
    """Take the question over to other data: its models and its way to train, without what was about its own data and
    what was chosen otherwise."""
    own = [word for word in shipped.base if _group(word) not in ("data", "task", "experiment", "evaluation")]
    own = [word for word in own if key_of(word) != "model" or _fits(word.partition("=")[2], task)]
    own = [word for word in own if key_of(word) not in typed]
    own_keys = {key_of(word) for word in own}
    own_task = next((word.partition("=")[2] for word in reversed(shipped.base) if key_of(word) == "task"), _USUAL_TASK)
    fields: dict[str, object] = {
        "question": shipped.question if own_task == task else f"{shipped.question} (here on data of task={task})",
        "hypothesis": shipped.hypothesis,
        "base": [*(word for word in base if key_of(word) not in own_keys or _group(word) == "data"), *own],
    }
    lost = [word for arm in shipped.arms.values() for word in arm if _group(word) in ("data", "task")]
    if not changed_arms and (lost or shipped.ablation is not None or shipped.foundations):
        why = " ".join(lost[:3]) or "it makes arms of an ablation or of runs"
        raise ConfigurationError(
            f"study {shipped.name} is about its own data ({why}): "
            f'start from another (h2h list study), or give arms, --arm NAME="OVERRIDES"'
        )
    if not changed_arms:
        fields |= {"arms": {arm: list(words) for arm, words in shipped.arms.items()}, "baseline": shipped.baseline}
    stage, metric = shipped.stage_and_name
    if metric == "loss" or task == "causal_lm":
        fields |= {"metric": shipped.metric, "direction": shipped.direction, "margin": shipped.margin}
    if shipped.lengths and (stage == "test" or fields.get("metric") == shipped.metric):
        fields["lengths"] = list(shipped.lengths)
    if shipped.movable and not changed_arms:
        fields["movable"] = {arm: list(moves) for arm, moves in shipped.movable.items()}
    if shipped.seed_offsets and not changed_arms:
        fields["seed_offsets"] = dict(shipped.seed_offsets)
    if shipped.budget is not None and not (shipped.budget.name == "equal_tokens" and _has_no_tokens(task)):
        fields["budget"] = shipped.budget.name
    return {key: value for key, value in fields.items() if value is not None}


def _fits(model: str, task: str) -> bool:
    """Return whether a model of this name learns the task."""
    target = next(choice.target for choice in choices("task") if choice.name == task)
    families = class_value(target, "families")
    return not families or model in families


def _group(word: str) -> str:
    return key_of(word).partition(".")[0].partition("/")[0]


def power_words(seeds: int) -> str:
    """Return what so many seeds can show, in a sentence."""
    effect = detectable_effect(seeds)
    if not math.isfinite(effect):
        return f"{seeds} seeds can show no difference: give at least three"
    return (
        f"{seeds} seeds show, in four of five studies, a difference of {effect:.1f} standard deviations of the paired "
        "differences or more"
    )


def _comments(fields: Mapping[str, object], seeds: int, remarks: Sequence[str]) -> dict[str, str]:
    return {
        "hypothesis": "What you expect, written down before the first run.",
        "base": "Overrides of every arm; h2h train --cfg job shows all fields.",
        "arms": "What sets each arm apart: any overrides of h2h train (h2h list).",
        "seeds": f"{power_words(seeds)}.",
        "margin": "\n# ".join(
            [
                f"The smallest difference of {fields['metric']} that matters; within it arms may be equivalent.",
                *(f"{remark[0].upper()}{remark[1:]}." for remark in remarks),
            ]
        ),
        "budget": "What is equal in all arms: equal_tokens, equal_parameters, equal_flops, equal_time; null: nothing.",
    }
