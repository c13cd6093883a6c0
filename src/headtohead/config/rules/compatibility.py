"""Refuse choices that cannot be combined before anything is built: one sentence with the reason and the fix.

Capabilities are class variables, read from source. A rule gives the sentences of what it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from headtohead.config.compose.choices import choices
from headtohead.config.errors import ConfigurationError
from headtohead.config.rules import (
    first_values_rules,
    model_rules,
    optimizer_rules,
    parallel_rules,
    parametrisation_rules,
    task_rules,
    unread_fields,
)
from headtohead.config.rules.config_view import ConfigView, StackSide
from headtohead.config.schema.metric_names import metric_names
from headtohead.config.schema.source_code import class_value
from headtohead.data.sources.column_roles import kind_of_fields
from headtohead.pretrained.checkpoint_reference import PREFIX

Rule = Callable[[ConfigView], Iterator[str]]


def check(config: Mapping[str, object]) -> None:
    """Raises ConfigurationError with the first reason why these choices do not go together."""
    view = ConfigView(config)
    for rule in RULES:
        for sentence in rule(view):
            raise ConfigurationError(sentence)


def _with(group: str, name: str, value: str) -> str:
    """The choices of a group whose class variable `name` holds `value`: "task=causal_lm or task=seq2seq"."""
    names = [c.name for c in choices(group) if value in (class_value(c.target, name) or ())]
    return " or ".join(f"{group}={choice}" for choice in names)


def _models_of(family: str) -> list[str]:
    """Return the choice that has the family's own name, or all of the family where none has it."""
    names = [choice.name for choice in choices("model") if class_value(choice.target, "family") == family]
    return [family] if family in names else names


def _task_and_model(view: ConfigView) -> Iterator[str]:
    families, family = view.task_value("families"), view.model_value("family")
    if families and family and family not in families:
        models = " or ".join(f"model={choice}" for name in families for choice in _models_of(name))
        tasks = _with("task", "families", family)
        yield (
            f"{view.chosen('task')} cannot be done by {view.chosen('model')}: choose {models}"
            f"{f', or {tasks}' if tasks else ''}"
        )


def _task_and_data(view: ConfigView) -> Iterator[str]:
    kinds = view.data_kinds
    kind = class_value(view.data["_target_"], "kind") or kind_of_fields(view.data)
    if kinds and kind and kind not in kinds:
        data = " or ".join(filter(None, (_of_kind(kind) for kind in kinds)))
        tasks = _with("task", "data_kinds", kind)
        yield (
            f"{view.chosen('task')} reads data of kind {' or '.join(kinds)}, and {view.chosen('data')} is {kind}: "
            f"choose {data or 'other data'}{f', or {tasks}' if tasks else ''}{view.without_labels_for(kind)}"
        )


def _of_kind(kind: str) -> str:
    return " or ".join(f"data={c.name}" for c in choices("data") if class_value(c.target, "kind") == kind)


def _path(view: ConfigView) -> Iterator[str]:
    for path, chosen, node in view.data_nodes():
        if "path" in node and node["path"] is None:
            yield f"{chosen} reads files of yours and {path}.path is null: give {path}.path=FILE"
        if {"name", "folder"} <= node.keys() and node["name"] is None and node["folder"] is None:
            yield (
                f"{chosen} reads a published set and {path}.name is null: give {path}.name=OWNER/SET, as at "
                f"https://huggingface.co/datasets, or {path}.folder=PATH"
            )


def _monitor(view: ConfigView) -> Iterator[str]:
    metrics, monitor = metric_names(view.task["_target_"]), view.task.get("monitor")
    if metrics and monitor is not None and monitor not in metrics:
        yield f"task.monitor={monitor} is not a metric of {view.chosen('task')}: choose {', '.join(metrics)}"


_POOLED = ("classifier", "regressor", "text_vector")
"""Heads that read one vector of a text."""


def _pooling(view: ConfigView) -> Iterator[str]:
    causal = any(side.causal for side in view.sides())
    if causal and view.task_value("head") in _POOLED and view.model.get("pooling") == "cls":
        yield (
            f"model.pooling=cls reads the first token, which sees no other token in {view.chosen('model')}: "
            f"use model.pooling=last or mean, or model=encoder_only"
        )


def _heads_divide_width(view: ConfigView) -> Iterator[str]:
    width, heads = view.model.get("d_model"), view.model.get("num_heads")
    has_own_width = all(side.nodes.get("mixer", {}).get("head_width") for side in view.sides())
    if width and heads and width % heads and not has_own_width and view.layers_read_heads:
        divisors = [number for number in range(1, min(width, 33)) if width % number == 0]
        yield (
            f"model.num_heads={heads} does not divide model.d_model={width}: "
            f"choose num_heads among {', '.join(map(str, divisors))}, or another width"
        )


def _key_value_heads(view: ConfigView) -> Iterator[str]:
    heads = view.model.get("num_heads", 1)
    nodes = [(side.paths["mixer"], side.nodes.get("mixer", {})) for side in view.sides()]
    for path, node in [*nodes, ("model.cross", view.model.get("cross") or {})]:
        groups = node.get("num_kv_heads")
        if groups and (groups > heads or heads % groups):
            divisors = ", ".join(str(number) for number in range(1, heads + 1) if heads % number == 0)
            yield f"{path}.num_kv_heads={groups} does not divide model.num_heads={heads}: choose {divisors}, or null"


_ACTS = (
    ("rotates", "reads_rotation", "rotates queries and keys", False),
    ("biases_scores", "reads_scores", "biases the score of each pair of tokens", True),
)
"""The actions of a position encoding: what a mixer must read for it, its words, and whether rotary might do instead."""


def _position_and_mixer(view: ConfigView) -> Iterator[str]:
    for _, group in groupby(view.sides(), lambda side: side.path):
        sides = list(group)
        for acts, reads, what, instead in _ACTS:
            without = [side for side in sides if side.can("mixer", reads) is False]
            if not without or not without[0].can("position", acts):
                continue
            side = without[0]
            if len(without) == len(sides) or side.can("position", "shared_by_layers") is False:
                rotary = ", rotary" if instead and side.can("mixer", "reads_rotation") else ""
                yield (
                    f"{view.chosen_of(side, 'position')} {what}, and {view.chosen_of(side, 'mixer')} "
                    f"{side.can('mixer', 'without_pairs')}: use model/position=none, learned{rotary} or sinusoidal"
                )


def _nothing_rotated(view: ConfigView) -> Iterator[str]:
    for path, sides in groupby(view.sides(), lambda side: side.path):
        layers = [one for one in sides if one.can("mixer", "reads_rotation") is not False]
        if layers and all(one.can("position", "rotates") and _is_not_rotated(one) for one in layers):
            position = view.chosen_of(layers[0], "position")
            yield (
                f"{layers[0].paths['mixer']}.rotated=false in every layer of {path} that could rotate leaves "
                f"{position} nothing to rotate: leave it out, or choose model/position=none"
            )


def _is_not_rotated(side: StackSide) -> bool:
    return side.nodes.get("mixer", {}).get("rotated") is False


def _position_and_width(view: ConfigView) -> Iterator[str]:
    width, heads = view.model.get("d_model", 1), view.model.get("num_heads", 1)
    for side in view.sides():
        position = side.nodes.get("position", {})
        multiple = side.can("position", "width_multiple") or 1
        if width % multiple:
            yield f"{view.chosen_of(side, 'position')} needs model.d_model to be a multiple of {multiple}, not {width}"
        multiple = side.can("position", "rotated_multiple") or 1
        fraction, head = position.get("fraction", 1.0), position.get("head_width") or width // heads
        rotated = int(head * fraction)
        if rotated < multiple or rotated % multiple:
            field = f"{side.paths['position']}.fraction={fraction}"
            share = "" if fraction == 1.0 else f", of which {field} rotates {rotated}"
            width_field = f"{side.paths['position']}.head_width"
            remedy = width_field if position.get("head_width") else "model.d_model, model.num_heads"
            yield (
                f"{view.chosen_of(side, 'position')} rotates a multiple of {multiple} channels, and a head has {head}"
                f"{share}: change {remedy} or the fraction"
            )


def _parts_of_heads(view: ConfigView) -> Iterator[str]:
    for side in view.sides():
        mixer, width = side.nodes.get("mixer", {}), view.model.get("d_model", 1) // view.model.get("num_heads", 1)
        for name in ("key_ratio", "value_ratio"):
            ratio = mixer.get(name)
            if ratio and abs(round(ratio * width) - ratio * width) > 1e-6:
                yield (
                    f"{view.chosen_of(side, 'mixer')} takes {ratio:g} of a head ({name}), and a head is {width} wide: "
                    f"change model.d_model, model.num_heads or {side.paths['mixer']}.{name}"
                )


def _head_widths(view: ConfigView) -> Iterator[str]:
    for side in view.sides():
        mixer, share = side.nodes.get("mixer", {}), view.model.get("d_model", 1) // view.model.get("num_heads", 1)
        field = "key_width" if "key_width" in mixer else "head_width"
        of_mixer, of_position = mixer.get(field) or share, side.nodes.get("position", {}).get("head_width") or share
        turned = side.can("position", "rotates") and side.can("mixer", "reads_rotation") is not False
        if turned and of_mixer != of_position and not _is_not_rotated(side):
            instead = (
                f", or {side.paths['mixer']}.rotated=false beside layers that it turns" if "rotated" in mixer else ""
            )
            yield (
                f"{view.chosen_of(side, 'position')} turns heads of width {of_position}, and those of "
                f"{view.chosen_of(side, 'mixer')} have {of_mixer}: set {side.paths['position']}.head_width and "
                f"{side.paths['mixer']}.{field} alike{instead}"
            )


def _position_and_grid(view: ConfigView) -> Iterator[str]:
    for side in view.sides():
        if side.can("position", "needs_grid") and view.model_value("family") != "vision_transformer":
            yield (
                f"{view.chosen_of(side, 'position')} places the patches of an image, and {view.chosen('model')} has "
                f"none: use model/position=sinusoidal, rotary or learned, or model=vision_transformer"
            )


def _buckets(view: ConfigView) -> Iterator[str]:
    for side in view.sides():
        position = side.nodes.get("position", {})
        buckets, furthest = position.get("num_buckets"), position.get("max_distance")
        if buckets is None or furthest is None:
            continue
        exact = buckets // 2 if side.causal else buckets // 4
        if buckets % 2 or buckets < 4 or furthest <= exact:
            yield (
                f"{side.paths['position']}.num_buckets={buckets} cannot sort distances up to max_distance={furthest}: "
                f"give an even num_buckets of at least 4, and max_distance above {max(1, exact)}"
            )


def _direction(view: ConfigView) -> Iterator[str]:
    for side in view.stacks():
        if side.causal and side.can("mixer", "can_be_causal") is False:
            yield (
                f"{view.chosen_of(side, 'mixer')} cannot be causal, and {view.chosen('model')} needs a causal one: "
                f"use another mixer, or model=encoder_only"
            )
        if not side.causal and side.can("mixer", "can_be_bidirectional") is False:
            yield (
                f"{view.chosen_of(side, 'mixer')} is causal only, and {view.chosen('model')} reads in both directions: "
                f"use another mixer, or model=decoder_only"
            )


def _devices(view: ConfigView) -> Iterator[str]:
    devices = view.trainer.get("devices", 1) * view.trainer.get("num_nodes", 1)
    if devices > 1 and view.trainer.get("strategy") == "single":
        yield f"trainer.devices={devices} needs trainer=ddp, which divides batches among them: choose it, or 1 device"
    devices //= view.trainer.get("tensor_parallel", 1)
    batch, accumulate = view.data.get("batch_size"), view.trainer.get("accumulate", 1)
    if batch is not None and batch < devices * accumulate:
        yield (
            f"data.batch_size={batch} is less than trainer.devices={devices} times trainer.accumulate={accumulate}: "
            f"give at least {devices * accumulate}"
        )


def _batch_statistics(view: ConfigView) -> Iterator[str]:
    devices, accumulate = view.trainer.get("devices", 1), view.trainer.get("accumulate", 1)
    for side in view.sides():
        if side.can("norm", "keeps_statistics") and (view.trainer.get("strategy") != "single" or accumulate > 1):
            split = f"trainer.accumulate={accumulate}" if accumulate > 1 else f"trainer.devices={devices}"
            yield (
                f"{view.chosen_of(side, 'norm')} takes statistics over a whole batch, which {split} splits: "
                f"set trainer=auto trainer.devices=1 trainer.accumulate=1, or model/norm=layer_norm or rms_norm"
            )


def _schedule(view: ConfigView) -> Iterator[str]:
    schedule: Mapping[str, Any] = view.config["schedule"]
    total = view.trainer.get("max_steps", 1)
    for name in ("warmup", "decay"):
        value = schedule.get(name)
        if value is not None and value >= 1 and value != int(value):
            yield (
                f"schedule.{name}={value} is neither a number of steps nor a fraction: give a whole number, or a "
                "fraction below 1"
            )
    warmup, decay = (_steps(schedule.get(name), total) for name in ("warmup", "decay"))
    if decay and warmup + decay > total:
        yield (
            f"schedule.warmup ({warmup} steps) and schedule.decay ({decay} steps) take more than "
            f"trainer.max_steps={total}: shorten one, or train for longer"
        )


def _steps(value: float | None, total: int) -> int:
    return 0 if value is None else round(value * total) if value < 1 else int(value)


def _starting_points(view: ConfigView) -> Iterator[str]:
    init, resume = view.config.get("init_from"), view.config.get("resume_from")
    if init and resume and not _is_run(resume):  # a run that is continued may have begun with init_from
        yield f"init_from={init} starts a run and resume_from={resume} continues one: give one of them"
    for field, origin in (("init_from", init), ("resume_from", resume)):
        if origin and not origin.startswith(PREFIX) and not _is_run(origin.removeprefix("run:")):
            yield f"{field}={origin} holds no record.json: give the folder of a run, {field}=outputs/GROUP/RUN"


def _is_run(origin: str) -> bool:
    folder = Path(origin)
    return ((folder if folder.is_dir() else folder.parent) / "record.json").is_file()


RULES: tuple[Rule, ...] = (
    _task_and_model,
    _task_and_data,
    _path,
    _monitor,
    _pooling,
    _heads_divide_width,
    _key_value_heads,
    _direction,
    _position_and_mixer,
    _nothing_rotated,
    _position_and_width,
    _head_widths,
    _parts_of_heads,
    _position_and_grid,
    _buckets,
    _devices,
    _schedule,
    _batch_statistics,
    _starting_points,
    *task_rules.rules(),
    *unread_fields.rules(),
    *model_rules.baseline_rules(),
    *first_values_rules.rules(),
    *parallel_rules.rules(),
    *optimizer_rules.rules(),
    *parametrisation_rules.rules(),
    *model_rules.finetuning_rules(),
)
