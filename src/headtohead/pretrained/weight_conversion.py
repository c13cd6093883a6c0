"""A checkpoint's weights become ours: each of theirs is used or ignored knowingly, and each of ours has a source. The
report of it lists the fields honoured, the tensors taken and ignored, and differences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.families import differences, read_config
from headtohead.pretrained.hub_checkpoint import Checkpoint
from headtohead.pretrained.model_family import Hub, ModelFamily
from headtohead.pretrained.safetensor_files import CheckpointError, FileTensors, ShardedTensors

_HELD: Mapping[str | None, str] = {"masked_language_model_and_pair": "masked_language_model"}
"""Heads of which another is a part."""
_OVER_VOCABULARY = ("language_model", "masked_language_model", "masked_language_model_and_pair")
"""Heads that may share their matrix with the embedding."""
_OVER_CLASSES = ("classifier", "tagger")
_SHOWN = 4


@dataclass(frozen=True)
class ConvertedWeights:
    """Weights by our names, and the checkpoint's weights that belong to another task."""

    weights: Mapping[str, Tensor]
    """The weights, each read when it is used."""
    has_head: bool
    """Whether the head is among the weights."""
    left_aside: tuple[str, ...]
    class_names: tuple[str, ...]


def convert_weights(checkpoint: Checkpoint, head: HeadName) -> ConvertedWeights:
    """Return the weights that a model of ours with this head starts with; raise CheckpointError where a name or a shape
    is left over."""
    family, hub = read_config(checkpoint)
    there = _named(checkpoint, family, hub, head)
    body, own = list(family.body(hub, head)), list(family.head_pieces(hub, head))
    kind = next((family.architectures.get(name) for name in hub.get("architectures") or ()), None)
    names = [name for piece in own for name in piece.theirs]
    promised = head in (kind, _HELD.get(kind))
    has_head = promised or (bool(names) and not hub.get("architectures") and all(name in there for name in names))
    pieces = [*body, *own] if has_head else body
    _check_names(
        checkpoint, family, there, {name for piece in pieces for name in piece.theirs}, family.beside(hub, head)
    )
    weights = ShardedTensors(checkpoint.origin, pieces, there)
    used = {name for piece in pieces for name in piece.theirs}
    class_names = _class_names(checkpoint, hub)
    if has_head and head in _OVER_CLASSES and hub.get("id2label") is not None:
        _check_labels(checkpoint, len(class_names), len(weights["head.linear.weight"]))
    return ConvertedWeights(
        weights, has_head, left_aside=tuple(name for name in there if name not in used), class_names=class_names
    )


def _check_labels(checkpoint: Checkpoint, labels: int, rows: int) -> None:
    if labels != rows:
        raise CheckpointError(
            f"init_from={checkpoint.origin}: its config.json names {labels} classes (id2label), and its head has "
            f"{rows} rows: correct it"
        )


def _class_names(checkpoint: Checkpoint, hub: Hub) -> tuple[str, ...]:
    id2label = hub.get("id2label") or {}
    try:
        labels = {int(number): str(name) for number, name in id2label.items()}
    except (AttributeError, ValueError):
        raise CheckpointError(
            f"init_from={checkpoint.origin}: its config.json has id2label={id2label}, which numbers no classes; "
            f"correct it"
        ) from None
    return tuple(labels[number] for number in sorted(labels))


def _named(checkpoint: Checkpoint, family: ModelFamily, hub: Hub, head: HeadName) -> FileTensors:
    """Return the checkpoint's weights under the names of a model with a head, each once, without buffers."""
    held = checkpoint.weights()
    raw = {family.aliases.get(modern, modern): name for name in held for modern in [_modern(name)]}
    if family.prefix and not any(name.startswith(family.prefix) for name in raw):
        raw = {name if name.startswith(family.heads) else family.prefix + name: there for name, there in raw.items()}
    buffers = [re.compile(pattern) for pattern in family.buffers]
    named = {name: there for name, there in raw.items() if not any(pattern.fullmatch(name) for pattern in buffers)}
    for second, first in family.tied(hub).items():
        if first in named and second in named:
            of_other_task = second.startswith(family.heads) and head not in _OVER_VOCABULARY
            if not of_other_task and not torch.equal(held[named[first]], held[named[second]]):
                raise CheckpointError(_apart(checkpoint, family, first, second))
            del named[second]
        elif second in named:
            named[first] = named.pop(second)
    return held.named(named)


def _apart(checkpoint: Checkpoint, family: ModelFamily, first: str, second: str) -> str:
    """Return the error message for two tensors where our model has one."""
    can_untie = not family.accepts.get("tie_word_embeddings") and second.startswith(family.heads)
    way_out = "set tie_word_embeddings=false in it" if can_untie else "choose another checkpoint"
    return (
        f"init_from={checkpoint.origin} holds {second} with other numbers than {first}, while its config.json makes "
        f"them one: {way_out}"
    )


def _modern(name: str) -> str:
    """Translate gamma and beta, which the first files called a layer norm's gain and shift."""
    words = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
    return re.sub(r"LayerNorm\.(gamma|beta)$", lambda old: words[old[0]], name)


def _check_names(
    checkpoint: Checkpoint, family: ModelFamily, there: Iterable[str], expected: set[str], aside: tuple[str, ...]
) -> None:
    if missing := [name for name in sorted(expected) if name not in there]:
        raise CheckpointError(
            f"init_from={checkpoint.origin} lacks {_some(missing)}, which its config.json promises: fetch it again, or "
            "give a complete one"
        )
    if more := [name for name in there if name not in expected and not name.startswith(aside)]:
        raise CheckpointError(
            f"init_from={checkpoint.origin} holds {_some(more)}, for which our {family.model_type} has no place: "
            "choose another checkpoint"
        )


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    shown = ", ".join(listed[:_SHOWN])
    return shown if len(listed) <= _SHOWN else f"{shown} and {len(listed) - _SHOWN} more"


@dataclass(frozen=True)
class ReadReport:
    """The report that `h2h inspect` prints about the checkpoint that a run starts from."""

    family: str
    fields: tuple[str, ...]
    """The fields of its config.json that built our model, or were checked."""
    tied: bool
    """Whether its head shares the matrix of the embedding."""
    taken: int
    """Tensors of ours that come from the file."""
    has_head: bool
    left_aside: tuple[str, ...]
    differences: tuple[str, ...]
    """Sentences on what differs from the reference by design."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, for --json."""
        return asdict(self)

    def __str__(self) -> str:
        head = "read" if self.has_head else "fresh"
        lines = [
            f"{self.family}: {self.taken} tensors taken, head {head}, {'tied' if self.tied else 'not tied'}",
            f"fields honoured: {', '.join(self.fields)}",
        ]
        if self.left_aside:
            lines.append(f"tensors left aside: {', '.join(self.left_aside)}")
        return "\n".join([*lines, *(f"differs by design: {sentence}" for sentence in self.differences)])


@dataclass
class _Noted(Mapping[str, object]):
    """A config.json that notes which of its fields are read."""

    hub: Mapping[str, object]
    read: set[str] = field(default_factory=set)

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return self.hub[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.hub)

    def __len__(self) -> int:
        return len(self.hub)


def read_report(checkpoint: Checkpoint, head: HeadName) -> ReadReport:
    """Return what a model of ours with this head takes from the file; raise CheckpointError as reading it does."""
    taken = convert_weights(checkpoint, head)
    for _ in taken.weights.values():
        """Reading each refuses one of another shape."""
    family, hub = read_config(checkpoint)
    noted = _Noted(hub)
    family.overrides(noted, head)
    pieces = [*family.body(noted, head), *family.head_pieces(noted, head)]
    del pieces
    honoured = noted.read | family.accepts.keys() | family.synonyms.keys()
    return ReadReport(
        family=family.model_type,
        fields=tuple(name for name in checkpoint.config if name in honoured),
        tied=any(second.startswith(family.heads) for second in family.tied(hub)),
        taken=len(taken.weights),
        has_head=taken.has_head,
        left_aside=taken.left_aside,
        differences=tuple(differences(checkpoint, head)),
    )
