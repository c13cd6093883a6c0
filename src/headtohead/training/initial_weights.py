"""A model that starts from the weights of another run or of a published checkpoint: what fits is taken, a head for
another purpose starts fresh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import published_head
from headtohead.architectures.heads import name_of
from headtohead.architectures.replaced_tokens import GENERATOR
from headtohead.architectures.vocabulary_heads import FURTHER, LanguageModel, MultiTokenLanguageModel
from headtohead.components.component import Position
from headtohead.errors import UsageError
from headtohead.pretrained.hub_checkpoint import is_published, open_checkpoint
from headtohead.records.run_folder import RunFolder
from headtohead.training.checkpoints import load_best

_HEAD = "head."
_ALIKE = {MultiTokenLanguageModel.__name__: LanguageModel.__name__}
"""Heads that begin with the weights of another, which has only some of their parts."""
_SMALLEST_SHARE = 0.5
"""The share of the body's weights that must come from the other run: less would be a new model under a false name."""
_SHOWN = 4


@dataclass(frozen=True)
class InitialWeights:
    """The names of weights, by what became of them."""

    taken: tuple[str, ...]
    fresh: tuple[str, ...]
    left_aside: tuple[str, ...]
    """The tensors of the other side that were left aside."""
    cut: tuple[str, ...] = ()
    """Tables of positions that were longer there than needed here; they are among the taken."""

    def __str__(self) -> str:
        parts = [f"taken: {_briefly(self.taken)}"]
        if self.cut:
            parts.append(f"cut to the length needed: {_briefly(self.cut)}")
        if self.fresh:
            parts.append(f"fresh: {_briefly(self.fresh)}")
        if self.left_aside:
            parts.append(f"left aside: {_briefly(self.left_aside)}")
        return "; ".join(parts)


def start_from(model: Architecture, run: Path | str, *, class_names: Sequence[str] = ()) -> InitialWeights:
    """The best weights of another run, or published ones (hf:NAME), into this model; raises ValueError where its body
    is not the same. Of a model without memory only the shapes are compared."""
    published, without_memory = is_published(run), any(weight.is_meta for weight in model.parameters())
    best, others = (
        _published(model, str(run)) if published else (load_best(RunFolder.open(run).path, lazily=without_memory), ())
    )
    there: Mapping[str, Tensor] = best["model"]
    here = {name: weight for name, weight in model.state_dict().items() if name not in _tied(model)}
    fits_head = _same_head(model, best, class_names) and _same_shapes(here, there)
    common = [name for name in here if name in there and (fits_head or not name.startswith(_HEAD))]
    tables = _tables(model)
    cut = [name for name in common if _put(here[name], there[name], name, run, may_be_cut=name in tables)]
    if published:
        _check_all(model, common, run)
    else:
        _check_enough(here, common, run)
    return InitialWeights(
        taken=tuple(common),
        fresh=tuple(name for name in here if name not in common),
        left_aside=_left(there, common, published) + others,
        cut=tuple(cut),
    )


@torch.no_grad()
def _put(own: Tensor, source: Tensor, name: str, run: Path | str, *, may_be_cut: bool) -> bool:
    """Copy a weight into the model's own, one at a time so that no second model is held; say whether it was cut."""
    is_cut = source.shape != own.shape and may_be_cut and source.shape[1:] == own.shape[1:]
    if is_cut:
        source = _cut(source, len(own), name, run)
    if source.shape != own.shape:
        raise UsageError(
            f"init_from={run} does not fit this model: {name} is {_by(source)} there and {_by(own)} here; give the "
            "sizes and the choices of its model (its config shows them), or start without init_from"
        )
    own.copy_(source)
    return is_cut


def _left(there: Mapping[str, Tensor], taken: Sequence[str], published: bool) -> tuple[str, ...]:
    """Return the names on the other side of what was not taken; one table of a run may have two names."""
    if published:
        return tuple(name for name in there if name not in taken)
    read = {there[name].data_ptr() for name in taken}
    return tuple(name for name, weight in there.items() if weight.data_ptr() not in read)


def _published(model: Architecture, origin: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Read a published checkpoint like a run's best one, and name the tensors that belong to another task."""
    from headtohead.pretrained.weight_conversion import convert_weights  # it imports every family

    taken = convert_weights(open_checkpoint(origin), published_head(name_of(model.head)))
    head = {"head": type(model.head).__name__ if taken.has_head else None}
    classes = {"class_names": list(taken.class_names)} if name_of(model.head) in ("classifier", "tagger") else {}
    return {"model": taken.weights, **head, **classes}, taken.left_aside


def _check_all(model: Architecture, taken: Sequence[str], origin: Path | str) -> None:
    """Check that a checkpoint made for this body lacks none of its parameters."""
    trainable = [name for name, _ in model.named_parameters()]
    if missing := [name for name in trainable if name not in taken and not name.startswith(_HEAD)]:
        raise UsageError(
            f"init_from={origin} has no weights for {_briefly(missing)} of this model: leave out choices "
            "that contradict its config.json"
        )


def _tied(model: Architecture) -> set[str]:
    """Second names, as of an embedding that the head or the other side shares."""
    first = {name for name, _ in model.named_parameters()}
    return {name for name, _ in model.named_parameters(remove_duplicate=False)} - first


def _same_head(model: Architecture, best: dict[str, object], class_names: Sequence[str]) -> bool:
    """Return a head of the same kind for the same classes: rows of equal number may stand for other things."""
    kind = type(model.head).__name__
    there = best.get("head", kind)
    alike = there is not None and _ALIKE.get(str(there), there) == _ALIKE.get(kind, kind)
    return alike and best.get("class_names", list(class_names)) == list(class_names)


def _same_shapes(here: dict[str, Tensor], there: Mapping[str, Tensor]) -> bool:
    heads = (name for name in here if name.startswith(_HEAD) and not name.startswith((FURTHER, GENERATOR)))
    return all(name in there and there[name].shape == here[name].shape for name in heads)


def _tables(model: Architecture) -> set[str]:
    """Tables with a row for each place of a sequence; the places of an image have two directions."""
    if model.family == "vision_transformer":
        return set()
    return {
        f"{path}.{name}"
        for path, module in model.named_modules()
        if isinstance(module, Position) and module.max_length is not None
        for name, _ in module.named_parameters()
    }


def _cut(table: Tensor, length: int, name: str, run: Path | str) -> Tensor:
    if len(table) < length:
        raise UsageError(
            f"init_from={run} knows {len(table)} positions ({name}), and this data needs {length}: give it shorter "
            f"rows, or train that run with model.max_length={length}, or with a position without a table"
        )
    return table[:length]


def _check_enough(here: dict[str, Tensor], taken: Sequence[str], run: Path | str) -> None:
    body = sum(weight.numel() for name, weight in here.items() if not name.startswith(_HEAD))
    num_taken = sum(here[name].numel() for name in taken if not name.startswith(_HEAD))
    if num_taken < _SMALLEST_SHARE * body:
        raise UsageError(
            f"init_from={run} has {num_taken} of the {body} weights below this model's head, too few for an "
            "initialisation: "
            "give a run with the same model= and as many layers"
        )


def _briefly(names: Iterable[str]) -> str:
    """Module by module: the first words of the names that tell them apart."""
    parts = list(dict.fromkeys(_part(name) for name in names))
    text = ", ".join(parts[:_SHOWN])
    return text if len(parts) <= _SHOWN else f"{text} and {len(parts) - _SHOWN} more"


def _part(name: str) -> str:
    words = name.split(".")
    return ".".join(words[:2]) if len(words) > 2 else words[0]


def _by(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) if tensor.ndim else "a number"
