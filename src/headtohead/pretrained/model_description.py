"""A composed configuration of our model is described here in the terms that a hub format can express."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headtohead.pretrained.model_family import InexpressibleError, OtherArchitectureError

Model = Mapping[str, Any]
"""The node `model` of a run's configuration, with nothing left to the data."""
Describable = Mapping[str, Sequence[Any]]
"""The values of a field that a format can express; a choice is named by its class."""


def described(model: Model, path: str) -> Any:
    """Return the value at a path such as `feedforward.bias`, or of the model itself at the empty path; None where there
    is none."""
    value: Any = model
    for key in filter(None, path.split(".")):
        value = value.get(key) if isinstance(value, Mapping) else None
    return str(value["_target_"]).rpartition(".")[2] if isinstance(value, Mapping) and "_target_" in value else value


def check_describable(model: Model, form: str, words: Describable) -> None:
    """Raise InexpressibleError where the model cannot be expressed in the format."""
    alike = {"loops": (None, 1), "num_early_layers": (None, 0)}
    fields = {**alike, **dict.fromkeys(("embedding_width", "feedforward_pattern"), (None,)), **words}
    for path, known in sorted(fields.items(), key=lambda field: field[0] != ""):
        if (value := described(model, path)) not in known:
            listed = " or ".join("null" if one is None else str(one) for one in known)
            field = f"model.{path}" if path else "model"
            raise (InexpressibleError if path else OtherArchitectureError)(
                f"{field}={value} cannot be written in the form of {form}, which supports only {listed}: keep our own "
                "form, or train a model of that kind"
            )


def attention_fields(
    model: Model, part: str = "mixer", *, bias: bool = True, scale: float | None = None
) -> Describable:
    """Return the fields of softmax attention in equal heads, each with its own keys."""
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


def block_fields(
    residual: str, *, norm: str = "LayerNorm", bias: bool = True, gated: Sequence[bool] = (False,)
) -> Describable:
    """Return the fields of a block's parts besides its mixer."""
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


def side_fields(*sides: str) -> Describable:
    """Return the fields of an encoder-decoder's sides, which may differ only in depth."""
    parts = ("pattern", "mixer", "local", "position", "norm", "residual", "feedforward", "feedforward_pattern")
    return {f"{side}.{part}": (None,) for side in sides for part in parts}


def depth(model: Model, side: str) -> int:
    """Return the number of layers of one side."""
    own = described(model, f"{side}.num_layers")
    return int(model["num_layers"] if own is None else own)


def labels(model: Model) -> dict[str, Any]:
    """Return the classes of a head, without names; none where there are no classes."""
    count = model.get("num_classes")
    if not count:
        return {}
    names = [f"LABEL_{number}" for number in range(count)]
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }
