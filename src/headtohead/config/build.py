"""Build objects from a checked configuration: data, task, model, and all components of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer

from headtohead.architectures.architecture import Architecture, InputSize
from headtohead.architectures.ledger import ledger
from headtohead.components.without_memory import without_memory
from headtohead.config.compose.steps_and_batches import in_steps
from headtohead.config.errors import ConfigurationError
from headtohead.config.instantiate import make, make_at
from headtohead.config.mentions import mention
from headtohead.config.origins.continued_run import content_hash
from headtohead.config.origins.from_weights import as_started, build_data, check_start, origin_of, report_cut
from headtohead.config.rules.data_rules import check_fields, check_kind, fit
from headtohead.config.rules.memory_limits import check_memory, check_weights, memory_needs_of, processes_here
from headtohead.config.run_config import Node, RunConfig
from headtohead.config.run_translator import RunTranslator, translation_direction_of
from headtohead.config.schema.source_code import class_value
from headtohead.data.augmentation.augmentation import Augmentations
from headtohead.data.augmentation.back_translation import BackTranslation
from headtohead.data.data_source import DataSource, DataSpec, Split
from headtohead.data.splits.sample_splits import train_subset
from headtohead.errors import UsageError
from headtohead.tasks.task import Task, spec_as_read
from headtohead.training.loop.precision import Precision
from headtohead.training.loop.seeds import seeds_of
from headtohead.training.optim.finetuning import Finetuning
from headtohead.training.optim.optimizers import checked_optimizer
from headtohead.training.optim.parametrisation import Parametrisation
from headtohead.training.optim.schedules import Schedule, schedule_of
from headtohead.training.parallel.devices import device_for
from headtohead.training.run_components import RunComponents, RunInfo, TrainerSettings

_TOO_LARGE = ("overflow", "too large to convert")
"""Words of torch and Python, whose errors for it are of many kinds."""


def build_task(config: Mapping[str, object], spec: DataSpec) -> Task:
    """Rows of the train split that it shows are among those that the run learns from."""
    check_kind(config, spec)
    task: Task = make(_task_node(config))
    try:
        return task.bind(replace(spec, open_train=_opener_of_training_rows(config, spec)))
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def _task_node(config: Node) -> Node:
    """Return the node of the task with nothing left to the model."""
    node: Node = config["task"]
    return {**node, "patch_size": config["model"]["patch_size"]} if node.get("patch_size", 0) is None else node


def _opener_of_training_rows(config: Mapping[str, object], spec: DataSpec) -> Callable[[], Split] | None:
    opened = spec.open_train
    return None if opened is None else partial(_training_rows_of, config, opened)


def _training_rows_of(config: Mapping[str, object], opened: Callable[[], Split]) -> Split:
    return train_subset(opened(), RunConfig(config).train_rows, seeds_of(RunConfig(config).seed).data_order)


def build_augmentation(config: Mapping[str, Any], data: DataSource) -> Augmentations:
    made: Augmentations = make(config["augmentation"])
    for step in made.steps.values():
        if isinstance(step, BackTranslation):
            step.take(
                partial(_translators, config, data), partial(_training_rows_of, config, partial(data.split, "train"))
            )
    return made.bind(data)


def _translators(
    config: Mapping[str, Any], data: DataSource, folders: Mapping[str, str], beams: int
) -> list[RunTranslator]:
    """Return the translators by the fields that name them: for pairs, one in the opposite direction; else, the second
    translates back."""
    made = [
        RunTranslator(folder, field, beams, build_data=build_data, make_model=make_model)
        for field, folder in folders.items()
    ]
    if data.spec().kind == "pairs_of_text":
        made[0].check_goes_back(translation_direction_of(config["data"]), "this run should translate")
    for there, back in pairwise(made):
        back.check_goes_back(there.direction, f"{there.field} does so")
    return made


def build_model(config: Mapping[str, object], *, device: torch.device | str | None = None) -> Architecture:
    """Return a plain module, `model(tokens) -> logits`; `device="meta"` makes it without memory.

    What the configuration leaves null (vocabulary, lengths, classes, image shape) is taken from the data.
    """
    return make_model(fitted(config)[0], device)


def build_parts(config: Mapping[str, object]) -> RunComponents:
    """All that training is handed; nothing of it is trained yet."""
    config = in_steps(config)
    mention(config)
    data = build_data(config)
    task = build_task(config, data.spec())
    check_fields(config, data)
    spec = spec_as_read(task, data)
    started = as_started(config, data)
    report_cut(config, started, data)
    filled = fit(started, spec)
    check_start(filled, spec)
    precision: Precision = make(config["precision"])
    settings: TrainerSettings = make(config["trainer"])
    if settings.train_rows is not None:
        train_subset(data.split("train"), settings.train_rows, 0)  # refused here, before there is a run
    parametrisation, finetuning = make(config["parametrisation"]), make(config["finetuning"])
    described = _started(filled, parametrisation, finetuning, "meta")
    costs = ledger(described, _size(task, spec, precision, settings))
    needs = memory_needs_of(config, costs, settings, precision)
    check_memory(needs, device_for(settings.accelerator), processes=processes_here(settings))
    if not _needs_real_device(filled):
        check_weights(_bytes_of(described))
    optimizer, schedule = make(config["optimizer"]), make(config["schedule"])
    _check_steps(optimizer, schedule, described, settings.max_steps)
    return RunComponents(
        make_model=partial(_started, filled, parametrisation, finetuning),
        make_shapes=partial(_started, filled, parametrisation, finetuning, "meta"),
        task=task,
        data=data,
        augmentation=build_augmentation(config, data),
        optimizer=optimizer,
        schedule=schedule,
        precision=precision,
        checkpointing=make(config["checkpointing"]),
        parametrisation=parametrisation,
        finetuning=finetuning,
        settings=settings,
        evaluation=make(config["evaluation"]),
        probe=make(config["probe"]),
        identity=_identity(config),
        tracking=make(config["tracking"]),
        costs=costs.to_dict(),
        config={**filled, "data": _with_pinned(filled["data"], data.pinned_fields())},
    )


def _check_steps(
    optimizer: Callable[[Architecture], Optimizer],
    schedule: Callable[[int], Schedule],
    described: Architecture,
    max_steps: int,
) -> None:
    """Refuse an optimizer or a schedule of somebody's own that no step can follow, before there is a run."""
    schedule_of(schedule, max_steps)
    if not described.trained_by_steps:
        return
    try:
        checked_optimizer(optimizer(described))
    except UsageError:
        raise
    except ValueError as error:
        raise ConfigurationError(f"optimizer cannot be built ({error}): correct its fields or its code") from error
    except (RuntimeError, NotImplementedError):
        return  # kernels that need a device: training makes it there


def _with_pinned(node: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Also within data that is made of other data."""
    deeper = {name: _with_pinned(node[name], value) for name, value in known.items() if isinstance(value, Mapping)}
    return {**node, **known, **deeper}


def fitted(
    config: Mapping[str, Any], data: DataSource | None = None, task: Task | None = None
) -> tuple[dict[str, Any], InputSize]:
    """Return the configuration with nothing left to the data, and the size of the data's longest sample; `data` and
    `task` are those that were built from it, where they are at hand."""
    data = build_data(config) if data is None else data
    task = build_task(config, data.spec()) if task is None else task
    spec = spec_as_read(task, data)
    return fit(config, spec), _size(task, spec, make(config["precision"]), make(config["trainer"]))


def _size(task: Task, spec: DataSpec, precision: Precision, settings: TrainerSettings) -> InputSize:
    """Return the size of the longest sample, in this precision and on the device of these settings."""
    device = device_for(settings.accelerator).type
    return sample_size(task, spec, bytes_per_element=precision.bytes_per_element, device=device)


def make_model(filled: Mapping[str, Any], device: torch.device | str | None = None) -> Architecture:
    """Draws from the global generator; freezes what is not to be trained. What needs memory is made with it.

    Weights that no memory holds are refused before any of them is made, by whichever command.
    """
    if torch.device(device or "cpu").type != "meta" and not _needs_real_device(filled):
        _check_fits(filled)
    return _started(filled, make(filled["parametrisation"]), make(filled["finetuning"]), device)


def _started(
    filled: Mapping[str, Any],
    parametrisation: Parametrisation,
    finetuning: Finetuning,
    device: torch.device | str | None = None,
) -> Architecture:
    """Return the model as training starts it, made without asking whether memory holds it."""
    with nullcontext() if device is None or _needs_real_device(filled) else _on(torch.device(device)):
        model = _made(filled["model"], _head_of(filled))
    parametrisation.apply(model)
    finetuning.apply(model)
    return model


def _on(device: torch.device) -> AbstractContextManager[object]:
    return without_memory() if device.type == "meta" else device


def _needs_real_device(filled: Mapping[str, object]) -> bool:
    return bool(class_value(RunConfig(filled).model_target, "needs_real_device"))


def _head_of(filled: Mapping[str, Any]) -> dict[str, object]:
    """Return the head that the task names, with the task's fields that the head is built with."""
    target, task = RunConfig(filled).task_target, filled["task"]
    fields = class_value(target, "head_fields") or ()
    return {"head": class_value(target, "head"), **{name: task[name] for name in fields if name in task}}


def check_fits(config: Mapping[str, object]) -> None:
    """Raise ConfigurationError where the machine cannot hold the weights of its model; of it nothing is made. What does
    not fit its data is left to whoever builds it."""
    try:
        filled, _ = fitted(config)
    except ConfigurationError:
        return
    if not _needs_real_device(filled):
        _check_fits(filled)


def _check_fits(filled: Mapping[str, object]) -> None:
    check_weights(_weight_bytes(json.dumps([filled["model"], _head_of(filled)], sort_keys=True)))


@lru_cache(maxsize=16)
def _weight_bytes(node_and_head: str) -> int:
    """Return the size of the model's weights in 32 bits; the global generator keeps its state."""
    with torch.random.fork_rng(devices=[]), without_memory():
        model = _made(*json.loads(node_and_head))
    return _bytes_of(model)


def _bytes_of(model: Architecture) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def _made(node: Mapping[str, Any], head: Mapping[str, object]) -> Architecture:
    """Whatever a module of somebody else's raises is reported in one sentence."""
    try:
        model: Architecture = make_at("model", node, **head)
    except Exception as error:
        if any(words in str(error).lower() for words in _TOO_LARGE):
            raise ConfigurationError(
                "model is refused: the sizes of its weights, multiplied, are beyond 64 bits; give smaller ones"
            ) from error
        theirs = (node.get("module") or {}).get("_target_")
        if theirs is None and isinstance(error, TypeError | AttributeError):
            raise ConfigurationError(
                f"model={node['_target_']} cannot be built from its fields ({error}): compare them with those of "
                "h2h train --cfg job"
            ) from error
        if theirs is None or isinstance(error, ValueError | FileNotFoundError | torch.OutOfMemoryError):
            raise
        raise ConfigurationError(
            f"model.module={theirs} cannot be built ({type(error).__name__}: {error}): correct its arguments or its "
            "code"
        ) from error
    return model


def _identity(config: Mapping[str, object]) -> RunInfo:
    run = RunConfig(config)
    init, resume = run.init_from, run.resume_from
    return RunInfo(
        seed=run.seed,
        name=run.name,
        group=run.group,
        tags=tuple(run.tags),
        notes=run.notes,
        content_hash=content_hash(config),
        output_dir=Path(run.output_dir),
        init_from=origin_of(init) if init else None,
        resume_from=Path(resume) if resume else None,
    )


def sample_size(task: Task, spec: DataSpec, *, bytes_per_element: int = 4, device: str = "cpu") -> InputSize:
    """Return the size of the longest sample; `spec` has the lengths that the model receives."""
    return InputSize(
        length=spec.max_length,
        decoder_length=spec.max_target_length,
        bytes_per_element=bytes_per_element,
        device=device,
        scored=task.num_scored(spec.max_length),
    )
