"""Changes of single fields and tensors of a published model, and what both sides make of the changed folder."""

from __future__ import annotations

import copy
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import headtohead as h2h
from headtohead.architectures.architecture import Architecture
from headtohead.config.build import make_model
from headtohead.config.errors import ConfigurationError
from headtohead.pretrained.families import FAMILIES, differences, model_overrides
from headtohead.pretrained.hub_checkpoint import open_checkpoint
from headtohead.pretrained.safetensor_files import CheckpointError
from headtohead.training.initial_weights import start_from
from parity.parity import redraw
from parity.published_models import MODELS, PublishedModel, reference_class, reference_config, rows

TOLERANCE = 5e-5
CHANGED = "other logits than without the change"
Fields = dict[str, Any]
Weights = dict[str, Tensor]
Outcome = Literal["equal", "refused here", "refused there", "differs as said", "different"]
_ABSENT = object()
_ACTIVATIONS = (
    "gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_pytorch_tanh", "gelu_10", "quick_gelu", "relu", "silu",
    "swish", "relu2", "tanh", "linear", "nonsense",
)  # fmt: skip
_TEXTS: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("hidden_act", "activation_function", "dense_act_fn"), _ACTIVATIONS),
    "feed_forward_proj": ("gated-gelu", "gated-silu", "gelu", "gelu_new", "gated-gelu_new", "relu-gated"),
    "attention_type": ("block_sparse", "original_full"),
    "position_embedding_type": ("relative_key", "absolute"),
    "patch_size": ([4, 4], [4, 6], [2, 2]),
    "image_size": ([12, 12], [12, 8]),
    "attention_window": ([4, 4], [4, 8], 6),
    "time_step_limit": ([0.0, 0.1], [0.0, "inf"]),
    "layer_types": (["full_attention"] * 2, ["sliding_attention"] * 2, ["full_attention", "sliding_attention"],
                    ["conv"] * 2, ["full_attention", "conv"]),
    "full_attn_idxs": ([], [1]),
    "pos_att_type": ("c2p", "P2C | c2p", ["p2c"], ["C2P"], ["p2p"]),
    "norm_rel_ebd": ("none", "Layer_Norm", "layer_norm|none"),
    "n_group": (2, 6),
    "block_ffn_dim_multiplier": (1.7,),
    "rope_parameters": (
        {"rope_type": "default", "rope_theta": 500.0}, {"rope_type": "linear", "factor": 3.0}, {"factor": 3.0},
        {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}, {"rope_theta": -3.0},
        {"rope_type": "yarn", "factor": 2.0, "rope_theta": 900.0, "original_max_position_embeddings": 8},
        {"type": "linear", "factor": 3.0, "rope_theta": 900.0}, {"rope_type": "longrope", "factor": 2.0},
    ),
    "rope_scaling": (
        {"rope_type": "dynamic", "factor": 2.0},
        {"rope_type": "linear", "factor": 3.0}, {"type": "linear", "factor": 2.0}, {"rope_type": "default"}, {},
        {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8},
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 16},
    ),
    "attn_config": ({}, {"alibi": False}, {"softmax_scale": 0.3}, {"clip_qkv": 0.1}, {"alibi_bias_max": 4},
                    {"qk_ln": True}, {"attn_pdrop": 0.5}),
}  # fmt: skip
"""Values worth trying besides those that follow from a field's type."""
_NOT_MUTATED = {"transformers_version", "quantization_config", "architectures", "_name_or_path", "model_type", "dtype"}


@dataclass(frozen=True)
class Mutation:
    """A change of config.json or of the weights, made on copies."""

    label: str
    field: str | None
    """The field of config.json that it changes; None where it changes tensors."""
    change: Callable[[Fields, Weights], None]


@cache
def base(kind: str, folder: Path) -> tuple[Fields, Weights]:
    """Return the fields and the weights of the family's small model, as `save_pretrained` writes them."""
    model = reference_class(MODELS[kind])(reference_config(MODELS[kind])).eval()
    redraw(model, constants=MODELS[kind].constants)
    model.save_pretrained(folder / kind)
    return json.loads((folder / kind / "config.json").read_text()), load_file(folder / kind / "model.safetensors")


def mutations(kind: str, fields: Fields, weights: Weights) -> list[Mutation]:
    """Return every change of a single field or tensor, in a fixed order."""
    return [*_of_fields(kind, fields), *_of_weights(kind, weights)]


def _of_fields(kind: str, fields: Fields) -> Iterator[Mutation]:
    model = MODELS[kind]
    known = reference_config(model).to_dict()
    names = {**known, **{name: known.get(new) for name, new in type(reference_config(model)).attribute_map.items()}}
    for name in sorted({*names, *model.old, *fields} - _NOT_MUTATED):
        present = fields.get(name, names.get(name))
        values = [*_variants(present), *_TEXTS.get(name, ()), *([model.old[name]] if name in model.old else [])]
        if name in fields:
            values.append(_ABSENT)
        for value in values:
            yield _setting(name, value)


def _variants(value: Any) -> list[Any]:
    """Return other values for a field that holds this one: of its type, of another sign, of another type."""
    if isinstance(value, bool):
        return [not value, None, int(not value), "yes"]
    if isinstance(value, int):
        return [value + 1, -value, 0, float(value), None, "text", True]
    if isinstance(value, float):
        return [2 * value + 0.1, -value, 0.0, 1, None, "text"]
    if isinstance(value, str):
        return ["other", None, 1]
    if isinstance(value, dict | list):
        return [None, 3, type(value)()]
    return [1, True, "text", 0.5]


def _setting(name: str, value: Any) -> Mutation:
    def change(fields: Fields, weights: Weights) -> None:
        if value is _ABSENT:
            fields.pop(name, None)
        else:
            fields[name] = value

    return Mutation(f"{name} absent" if value is _ABSENT else f"{name}={value!r}", name, change)


def _of_weights(kind: str, weights: Weights) -> Iterator[Mutation]:
    for name in weights:
        yield Mutation(f"{name} missing", None, partial(_drop, name))
        yield Mutation(f"{name} longer", None, partial(_lengthen, name))
        stem, _, part = name.rpartition(".")
        extra = f"{stem}.more_{part}"
        yield Mutation(f"{extra} added", None, partial(_add, extra))
    yield Mutation("every weight in bfloat16", None, _halve)
    family = next(family for family in FAMILIES if family.model_type == kind)
    for tied in (True, False, None):
        hub = {"tie_word_embeddings": True, "num_layers": 2, "num_decoder_layers": 2}
        for second, first in family.tied(hub).items():
            for equal in (True, False):
                how = f"{second} {'a copy' if equal else 'apart'}, tie_word_embeddings={tied}"
                yield Mutation(how, None, _separating(second, first, equal, tied))


def _add(name: str, fields: Fields, weights: Weights) -> None:
    weights[name] = torch.ones(3)


def _halve(fields: Fields, weights: Weights) -> None:
    for name, weight in weights.items():
        weights[name] = weight.to(torch.bfloat16) if weight.is_floating_point() else weight


def _drop(name: str, fields: Fields, weights: Weights) -> None:
    del weights[name]


def _lengthen(name: str, fields: Fields, weights: Weights) -> None:
    weights[name] = torch.cat([weights[name], weights[name][:1]]) if weights[name].ndim else weights[name]


def _separating(second: str, first: str, equal: bool, tied: bool | None) -> Callable[[Fields, Weights], None]:
    def change(fields: Fields, weights: Weights) -> None:
        held = weights.get(first)
        if held is None:
            return
        weights[second] = held.clone() if equal else held.flip(0) + 0.1
        if tied is None:
            fields.pop("tie_word_embeddings", None)
        else:
            fields["tie_word_embeddings"] = tied

    return change


def write(folder: Path, fields: Fields, weights: Weights) -> Path:
    """Write a checkpoint as the hub has it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    save_file({name: held.contiguous() for name, held in weights.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})  # fmt: skip
    return folder


def compared(kind: str, folder: Path) -> tuple[Outcome, str]:
    """Return what both sides make of a folder, with the sentence of a refusal or the largest difference."""
    model = MODELS[kind]
    try:
        ours = _ours(model, folder)
    except (CheckpointError, ConfigurationError) as error:
        return "refused here", str(error)
    except ValueError as error:
        assert "=" in str(error) and ": " in str(error), f"no field and no way out: {error}"
        return "refused here", str(error)
    if isinstance(ours, str):
        return "refused here", ours
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = _theirs(model, folder)
            if isinstance(theirs, str):
                return "refused there", theirs
            expected = [_logits(theirs, options) for options, _, _ in rows(model)]
    except Exception as error:  # whatever the reference raises is its refusal
        return "refused there", f"{type(error).__name__}: {error}"
    worst = 0.0
    with torch.no_grad():
        for wished, (_, options, scored) in zip(expected, rows(model), strict=True):
            result = ours(**options)
            if result.shape != wished.shape:
                return "different", f"logits of shape {tuple(result.shape)} here and {tuple(wished.shape)} there"
            if not wished[scored].isfinite().all():
                return "refused there", "logits that are not finite"
            worst = max(worst, float((result - wished)[scored].abs().nan_to_num(torch.inf).max()))
    if worst < TOLERANCE:
        return "equal", CHANGED if _moved(kind, folder.parent, expected) else f"{worst:.1e}"
    return ("differs as said" if _says_more(model, folder) else "different"), f"{worst:.1e}"


@cache
def _unchanged(kind: str, folder: Path) -> list[Tensor]:
    """Return the logits of the reference for the model that `base` has written into this folder."""
    theirs = _theirs(MODELS[kind], folder / kind)
    assert isinstance(theirs, nn.Module)
    return [_logits(theirs, options) for options, _, _ in rows(MODELS[kind])]


def _moved(kind: str, folder: Path, logits: list[Tensor]) -> bool:
    """Return whether the reference's own logits are not those of the unchanged model."""
    usual = _unchanged(kind, folder)
    return any(
        one.shape != other.shape or not torch.allclose(one, other, atol=1e-6)
        for one, other in zip(logits, usual, strict=True)
    )


def _says_more(model: PublishedModel, folder: Path) -> bool:
    """Return whether a sentence is said at load that is not said of the unchanged model."""
    unchanged = folder.parent / "unchanged"
    write(unchanged, reference_config(model).to_dict(), {})
    message, usual = (differences(open_checkpoint(f"hf:{path}"), model.head) for path in (folder, unchanged))
    return not set(message) <= set(usual)


def _ours(model: PublishedModel, folder: Path) -> Architecture | str:
    checkpoint = open_checkpoint(f"hf:{folder}")
    ours = copy.deepcopy(_built((*model.task, *model_overrides(checkpoint, model.head), "model.dropout=0")))
    start = start_from(ours, f"hf:{folder}", class_names=class_names(checkpoint.config))
    return f"fresh: {', '.join(start.fresh)}" if start.fresh else ours


def class_names(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the labels of a classifier, in the order of their numbers where they have any."""
    message = fields.get("id2label")
    return tuple(message.values()) if isinstance(message, dict) else ()


@cache
def _built(overrides: tuple[str, ...]) -> Architecture:
    """Return a model with fresh weights, to be copied."""
    return make_model(h2h.compose("train", list(overrides))).eval()


def _theirs(model: PublishedModel, folder: Path) -> nn.Module | str:
    loaded, message = reference_class(model).from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32, **_eager(model)
    )
    if missing := [name for name in message["missing_keys"] if name not in model.idle]:
        return f"random there: {', '.join(sorted(missing))}"
    return loaded.eval()


def _eager(model: PublishedModel) -> dict[str, str]:
    return {} if model.reference in ("Longformer", "Rwkv", "Mamba", "Mamba2") else {"attn_implementation": "eager"}


@torch.no_grad()
def _logits(theirs: nn.Module, options: Mapping[str, Tensor]) -> Tensor:
    return theirs(**options, return_dict=True).logits


logging.getLogger("transformers").setLevel(logging.CRITICAL)
