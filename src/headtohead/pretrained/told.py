"""What a composed configuration says of a model of ours, and how much of it a form of the hub has words for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headtohead.pretrained.family import InexpressibleError

Model = Mapping[str, Any]
"""The node `model` of a run's configuration, with nothing left to the data."""
Words = Mapping[str, Sequence[Any]]
"""The values of a field that a form can say; a choice goes by the name of its class."""


def told(model: Model, path: str) -> Any:
    """The value at `feedforward.bias`, of the model itself at the empty path; None where there is none."""
    value: Any = model
    for key in filter(None, path.split(".")):
        value = value.get(key) if isinstance(value, Mapping) else None
    return str(value["_target_"]).rpartition(".")[2] if isinstance(value, Mapping) and "_target_" in value else value


def check_words(model: Model, form: str, words: Words) -> None:
    """Raises InexpressibleError where the model is something that the form cannot say."""
    for path, known in words.items():
        if (value := told(model, path)) not in known:
            listed = " or ".join("null" if one is None else str(one) for one in known)
            field = f"model.{path}" if path else "model"
            raise InexpressibleError(
                f"{field}={value} cannot be written in the form of {form}, which knows {listed} alone: keep our own "
                "form, or train a model of that kind"
            )


def attention_words(model: Model, part: str = "mixer", *, bias: bool = True, scale: float | None = None) -> Words:
    """Softmax attention in equal heads, each with keys of its own."""
    heads, width = model["num_heads"], model["d_model"]
    return {
        part: ("SoftmaxAttention", "SoftmaxCrossAttention"),
        f"{part}.num_kv_heads": (None, heads),
        f"{part}.head_width": (None, width / heads),
        f"{part}.bias": (bias,),
        f"{part}.output_bias": (None, bias),
        f"{part}.qk_norm": (None, False),
        f"{part}.scale": (scale,),
    }


def block_words(
    residual: str, *, norm: str = "LayerNorm", bias: bool = True, gated: Sequence[bool] = (False,)
) -> Words:
    """What the parts of a block besides its mixer are."""
    return {
        "pattern": (None,),
        "local": (None, "Identity"),
        "residual": (residual,),
        "norm": (norm,),
        "norm.bias": (None, True),
        "feedforward": ("DenseFeedForward",),
        "feedforward.gated": gated,
        "feedforward.bias": (bias,),
    }


def side_words(*sides: str) -> Words:
    """Nothing but depth set apart for a side of an encoder-decoder."""
    parts = ("pattern", "mixer", "local", "position", "norm", "residual", "feedforward")
    return {f"{side}.{part}": (None,) for side in sides for part in parts}


def depth(model: Model, side: str) -> int:
    """Layers of one side."""
    own = told(model, f"{side}.num_layers")
    return int(model["num_layers"] if own is None else own)


def labels(model: Model) -> dict[str, Any]:
    """The classes of a head, without names; none where there are no classes."""
    count = model.get("num_classes")
    if not count:
        return {}
    names = [f"LABEL_{number}" for number in range(count)]
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }
