"""Refuse what cannot be combined with maximal update, with the reason and the fix: everything for which no rule is
published, or implemented here. A parametrisation that scales the wrong thing would say nothing, and transfer
nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headtohead.config.errors import show
from headtohead.config.rules.config_view import STACK_SLOTS, ConfigView
from headtohead.config.schema.source_code import class_value
from headtohead.pretrained.checkpoint_reference import PREFIX

_OPTIMIZERS = ("adamw", "adam", "lion", "sgd", "muon")
_INITIALISATION = "headtohead.components.initialisations.gpt2"
_UNWRITTEN = {"head_width": None, "num_kv_heads": None, "scale": None, "qk_norm": False, "score_cap": None}
"""The options of attention whose rules are none of the paper's, and the values that leave them aside."""
_OWN_SCALES = {
    "scale_embedding": "multiplies embeddings by the square root of the width",
    "scale_logits": "divides logits by the square root of the width",
    "logit_cap": "bounds logits",
    "logit_scale": "multiplies logits",
    "embedding_width": "gives embeddings a width",
}
_OTHERWISE = "or parametrisation=standard"


def rules() -> tuple[Callable[[ConfigView], Iterator[str]], ...]:
    checks = (
        _architecture, _decoder, _generator, _head, _parts, _attention, _initialisation, _own_scales, _optimizer,
        _start, _base,
    )  # fmt: skip
    return tuple(_where_scaled(rule) for rule in checks)


def _where_scaled(rule: Callable[[ConfigView], Iterator[str]]) -> Callable[[ConfigView], Iterator[str]]:
    def check(view: ConfigView) -> Iterator[str]:
        if scaling(view.config) is not None:
            yield from rule(view)

    return check


def _lacks(target: str) -> str:
    """Return why there is no rule for this class; empty if there is one."""
    reason = class_value(target, "no_mup_rule")
    return "no rule for it is implemented" if reason is None else str(reason)


def _architecture(view: ConfigView) -> Iterator[str]:
    if reason := _lacks(view.model["_target_"]):
        yield (
            f"{view.chosen('parametrisation')} cannot scale {view.chosen('model')}: {reason}; choose decoder_only, "
            f"encoder_only, encoder_decoder, vision_transformer or mlp, {_OTHERWISE}"
        )


def _decoder(view: ConfigView) -> Iterator[str]:
    if view.task_value("head") == "pixel_decoder":
        yield (
            f"{view.chosen('parametrisation')} cannot scale the decoder of {view.chosen('task')}, whose width is "
            f"none of the model's and for which no rule is published: choose task=image_classification, {_OTHERWISE}"
        )


def _generator(view: ConfigView) -> Iterator[str]:
    if view.task_value("head") == "replaced_token_detector":
        yield (
            f"{view.chosen('parametrisation')} cannot scale the generator of {view.chosen('task')}, whose width is "
            f"none of the model's and for which no rule is published: choose task=masked_lm, {_OTHERWISE}"
        )


def _head(view: ConfigView) -> Iterator[str]:
    if view.task_value("head") == "text_vector":
        yield (
            f"{view.chosen('parametrisation')} cannot scale {view.chosen('task')}: no rule is published for cosines of "
            f"vectors in place of logits; choose another task, {_OTHERWISE}"
        )


def _parts(view: ConfigView) -> Iterator[str]:
    for side in view.sides():
        for slot in STACK_SLOTS:
            node = side.nodes.get(slot)
            if node is not None and (reason := _lacks(node.get("_target_", ""))):
                scaling, chosen = view.chosen("parametrisation"), view.chosen_of(side, slot)
                group = None if slot == "mixer" else side.groups.get(slot)
                yield f"{scaling} cannot scale {chosen}: {reason}; {_choices(slot, group)}"
    cross = view.model.get("cross")
    if cross and (reason := _lacks(cross.get("_target_", ""))):
        scaling, chosen = view.chosen("parametrisation"), view.chosen("model/cross")
        yield f"{scaling} cannot scale {chosen}: {reason}; {_choices('cross')}"


def _choices(slot: str, group: str | None = None) -> str:
    """Return the choice of this slot that can be scaled, in the group of its part."""
    usual = {
        "mixer": "softmax_attention", "cross": "softmax_attention", "local": "none", "position": "rotary",
        "norm": "layer_norm", "residual": "pre", "feedforward": "gelu",
    }  # fmt: skip
    return f"choose {group or f'model/{slot}'}={usual[slot]}, {_OTHERWISE}"


def _attention(view: ConfigView) -> Iterator[str]:
    nodes = [(side.paths["mixer"], side.nodes.get("mixer", {})) for side in view.sides()]
    for path, node in [*nodes, ("model.cross", view.model.get("cross") or {})]:
        for name, usual in _UNWRITTEN.items():
            if name in node and node[name] != usual:
                yield (
                    f"{path}.{name}={show(node[name])} is not among the rules of {view.chosen('parametrisation')} "
                    f"(https://arxiv.org/abs/2203.03466): leave it at {show(usual)}, {_OTHERWISE}"
                )


def _initialisation(view: ConfigView) -> Iterator[str]:
    node = view.model.get("initialisation") or {}
    if node.get("_target_") != _INITIALISATION:
        yield (
            f"{view.chosen('model/initialisation')} lets weights depend on the width in a way of its own, and "
            f"{view.chosen('parametrisation')} must start from one that does not: use model/initialisation=gpt2, "
            f"{_OTHERWISE}"
        )


def _own_scales(view: ConfigView) -> Iterator[str]:
    for name, does in _OWN_SCALES.items():
        if value := view.model.get(name):
            usual = show(False if value is True else None)
            yield (
                f"model.{name}={show(value)} {does}, which {view.chosen('parametrisation')} keeps as it is at any "
                f"width: set model.{name}={usual}, {_OTHERWISE}"
            )


def _optimizer(view: ConfigView) -> Iterator[str]:
    node: Mapping[str, Any] = view.config["optimizer"]
    known = {f"headtohead.training.optim.optimizers.{name}": name for name in _OPTIMIZERS}
    name = known.get(node.get("_target_", ""))
    if name is None:
        yield (
            f"{view.chosen('optimizer')} has no published rule for {view.chosen('parametrisation')}: choose "
            f"{', '.join(_OPTIMIZERS)}, {_OTHERWISE}"
        )
    if name == "adam" and node.get("weight_decay"):
        yield (
            f"optimizer.weight_decay={show(node['weight_decay'])} of optimizer=adam is part of a gradient whose size "
            f"depends on the width, and {view.chosen('parametrisation')} has no rule for the sum: use optimizer=adamw, "
            "or weight_decay=0"
        )


def _start(view: ConfigView) -> Iterator[str]:
    origin = view.config.get("init_from")
    if origin and origin.startswith(PREFIX):
        yield (
            f"init_from={origin} has weights made for multipliers other than those of "
            f"{view.chosen('parametrisation')}: leave init_from out, {_OTHERWISE}"
        )


def scaling(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the parametrisation if it makes weights depend on the width; None for the standard one."""
    node: Mapping[str, Any] = config.get("parametrisation") or {}
    return node if class_value(node.get("_target_", ""), "scales") else None


def _base(view: ConfigView) -> Iterator[str]:
    node: Mapping[str, Any] = view.config["parametrisation"]
    width, head = node.get("base_width"), node.get("base_head_width")
    heads, own = view.model.get("num_heads"), view.model.get("d_model")
    if not width or not head or not heads or not own:
        return
    if width % head:
        yield (
            f"parametrisation.base_head_width={head} does not divide parametrisation.base_width={width}: give the "
            "width of one head of the base, its d_model / num_heads"
        )
    if own == width and own // heads != head:
        yield (
            f"parametrisation.base_head_width={head} is not that of this model, which has the base's width {width} and "
            f"heads of {own // heads}: set parametrisation.base_head_width={own // heads}, or model.num_heads="
            f"{width // head}"
        )
