"""From a checked configuration to objects: data, task, model, and all the parts of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from headtohead.architectures.contracts import Architecture, InputSize
from headtohead.architectures.costs import Ledger, ledger
from headtohead.building.content import run_id
from headtohead.building.data_fit import check_kind, fit
from headtohead.building.epochs import in_steps
from headtohead.building.errors import ConfigurationError
from headtohead.building.making import make
from headtohead.building.memory import check_memory, needs_of, processes_here
from headtohead.building.sizes import sample_size
from headtohead.building.sources import class_value
from headtohead.building.starting import as_started, check_start, origin_of, tokenizer_to_take
from headtohead.building.translating import RunTranslator
from headtohead.building.ways import way_of
from headtohead.data.augmentation.back_translation import BackTranslation
from headtohead.data.augmentation.pipeline import NO_AUGMENTATION, Augmentations
from headtohead.data.contracts import DataSource, DataSpec, Split
from headtohead.data.sampling import learned_rows
from headtohead.tasks.contracts import Task
from headtohead.tasks.lengths import as_read
from headtohead.training.devices import device_for
from headtohead.training.finetuning import Finetuning
from headtohead.training.parametrisation import Parametrisation, Standard
from headtohead.training.parts import EvaluationSettings, Identity, Parts, Settings
from headtohead.training.precision import Precision
from headtohead.training.seeds import seeds_of

_TOO_LARGE = ("overflow", "too large to convert")
"""Words of torch and Python, whose errors for it are of many kinds."""


def build_data(config: Mapping[str, Any]) -> DataSource:
    """A run that starts from another reads text as that one did."""
    data: DataSource = make(config["data"])
    if (tokenizer := tokenizer_to_take(config)) is not None:
        data.take_tokenizer(tokenizer)
    return data


def build_task(config: Mapping[str, Any], spec: DataSpec) -> Task:
    """Rows of the train split that it shows are among those that the run learns from."""
    check_kind(config, spec)
    task: Task = make(config["task"])
    try:
        return task.bind(replace(spec, open_train=_learned(config, spec)))
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def _learned(config: Mapping[str, Any], spec: DataSpec) -> Callable[[], Split] | None:
    """Configurations written before there was a choice learn from all rows."""
    opened = spec.open_train
    return None if opened is None else partial(_learned_of, config, opened)


def _learned_of(config: Mapping[str, Any], opened: Callable[[], Split]) -> Split:
    return learned_rows(opened(), config["trainer"].get("train_rows"), seeds_of(config["seed"]).data_order)


def build_augmentation(config: Mapping[str, Any], data: DataSource) -> Augmentations:
    """Configurations written before there was a choice train on the rows as they are."""
    made: Augmentations = make(config["augmentation"]) if "augmentation" in config else NO_AUGMENTATION
    for step in made.steps.values():
        if isinstance(step, BackTranslation):
            step.take(partial(_translators, config, data), partial(_learned_of, config, partial(data.split, "train")))
    return made.bind(data)


def _translators(
    config: Mapping[str, Any], data: DataSource, folders: Mapping[str, str], beams: int
) -> list[RunTranslator]:
    """By the fields that name them: of pairs, one that goes the other way; else, the second goes back."""
    made = [
        RunTranslator(folder, field, beams, build_data=build_data, make_model=make_model)
        for field, folder in folders.items()
    ]
    if data.spec().kind == "pairs_of_text":
        made[0].check_goes_back(way_of(config["data"]), "this run is to translate")
    for there, back in pairwise(made):
        back.check_goes_back(there.way, f"{there.field} does so")
    return made


def build_model(config: Mapping[str, Any], *, device: torch.device | str | None = None) -> Architecture:
    """A plain module, `model(tokens) -> logits`; `device="meta"` makes it without memory.

    What the configuration leaves null (vocabulary, lengths, classes, image shape) is taken from the data.
    """
    return make_model(fitted(config)[0], device)


def build_parts(config: Mapping[str, Any]) -> Parts:
    """All that training is handed; nothing of it is trained yet."""
    config = in_steps(config)
    data = build_data(config)
    task = build_task(config, data.spec())
    spec = as_read(task, data)
    filled = fit(as_started(config), spec)
    check_start(filled, spec)
    precision: Precision = make(config["precision"])
    settings: Settings = make(config["trainer"])
    costs = _costs(filled, _size(config, task, spec))
    needs = needs_of(config, costs.totals, settings, precision)
    check_memory(needs, device_for(settings.accelerator), processes=processes_here(settings))
    return Parts(
        make_model=partial(make_model, filled),
        task=task,
        data=data,
        augmentation=build_augmentation(config, data),
        optimizer=make(config["optimizer"]),
        schedule=make(config["schedule"]),
        precision=precision,
        checkpointing=make(config["checkpointing"]),
        parametrisation=_parametrisation(config),
        finetuning=_finetuning(config),
        settings=settings,
        evaluation=_evaluation(config),
        probe=make(config["probe"]),
        identity=_identity(config),
        tracking=make(config["tracking"]),
        costs=costs.to_dict(),
        config={**filled, "data": _settled(filled["data"], data.settled())},
    )


def _settled(node: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Also within data that is made of other data."""
    deeper = {name: _settled(node[name], value) for name, value in known.items() if isinstance(value, Mapping)}
    return {**node, **known, **deeper}


def fitted(config: Mapping[str, Any]) -> tuple[dict[str, Any], InputSize]:
    """The configuration with nothing left to the data, and the size of the data's longest sample."""
    data = build_data(config)
    task = build_task(config, data.spec())
    spec = as_read(task, data)
    return fit(config, spec), _size(config, task, spec)


def _size(config: Mapping[str, Any], task: Task, spec: DataSpec) -> InputSize:
    """Return the size of the longest sample, in the precision and on the device that the configuration names."""
    precision: Precision = make(config["precision"])
    settings: Settings = make(config["trainer"])
    device = device_for(settings.accelerator).type
    return sample_size(task, spec, bytes_per_element=precision.bytes_per_element, device=device)


def make_model(filled: Mapping[str, Any], device: torch.device | str | None = None) -> Architecture:
    """Draws from the global generator; freezes what is not to be trained. What needs memory is made with it."""
    head = class_value(filled["task"]["_target_"], "head")
    if class_value(filled["model"]["_target_"], "needs_memory"):
        device = None
    with torch.device(device) if device is not None else nullcontext():
        model = _made(filled["model"], head)
    _parametrisation(filled).apply(model)
    _finetuning(filled).apply(model)
    return model


def _made(node: Mapping[str, Any], head: str) -> Architecture:
    """Whatever a module of somebody else's raises is said in one sentence."""
    try:
        model: Architecture = make(node, head=head)
    except Exception as error:
        if any(words in str(error).lower() for words in _TOO_LARGE):
            raise ConfigurationError(
                "model is refused: the sizes of its weights, multiplied, are beyond 64 bits; give smaller ones"
            ) from error
        theirs = (node.get("module") or {}).get("_target_")
        if theirs is None and isinstance(error, TypeError | AttributeError):
            raise ConfigurationError(
                f"model={node['_target_']} cannot be made from its fields ({error}): compare them with those of "
                "h2h train --cfg job"
            ) from error
        if theirs is None or isinstance(error, ValueError | FileNotFoundError | torch.OutOfMemoryError):
            raise
        raise ConfigurationError(
            f"model.module={theirs} cannot be made ({type(error).__name__}: {error}): correct its arguments or its code"
        ) from error
    return model


def _parametrisation(config: Mapping[str, Any]) -> Parametrisation:
    """Configurations written before there was a choice scale nothing with the width."""
    return make(config["parametrisation"]) if "parametrisation" in config else Standard()


def _finetuning(config: Mapping[str, Any]) -> Finetuning:
    """Configurations written before there was a choice train everything."""
    return make(config["finetuning"]) if "finetuning" in config else Finetuning()


def _evaluation(config: Mapping[str, Any]) -> EvaluationSettings:
    """Configurations written before there was a choice test once."""
    return make(config["evaluation"]) if "evaluation" in config else EvaluationSettings()


def _costs(filled: Mapping[str, Any], size: InputSize) -> Ledger:
    return ledger(make_model(filled, "meta"), size)


def _identity(config: Mapping[str, Any]) -> Identity:
    init, resume = config["init_from"], config["resume_from"]
    return Identity(
        seed=config["seed"],
        name=config["name"],
        group=config["group"],
        tags=tuple(config["tags"]),
        notes=config["notes"],
        content_hash=run_id(config),
        output_dir=Path(config["output_dir"]),
        init_from=origin_of(init) if init else None,
        resume_from=Path(resume) if resume else None,
    )
