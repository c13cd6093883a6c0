"""Refuse what cannot be combined with models that are not transformers, with the reason and the fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby, product

from headtohead.architectures.head_names import NEXT_TOKEN_HEADS
from headtohead.config.compose.layer_patterns import FEEDFORWARDS, PATTERNS
from headtohead.config.rules.config_view import ConfigView

_WITHOUT_STACK = ("mlp", "cnn", "resnet", "convnext", "swin", "text_cnn", "bag_of_words", "external")

_WITHOUT_ORDER = {"mixer": "softmax_attention", "local": "none", "feedforward": "gelu"}
"""A choice for each slot whose tokens may come in any order."""


def baseline_rules() -> tuple[Callable[[ConfigView], Iterator[str]], ...]:
    return (
        _both_ways,
        _class_token,
        _module,
        _checkpointing,
        _drop_path,
        _hidden_patches,
        _first_norm,
        _local_base,
        _one_expert,
        _pattern_and_depth,
        _early_layers,
        _loops,
        _average,
    )


def _both_ways(view: ConfigView) -> Iterator[str]:
    if view.model_value("family") != "decoder_only":
        return
    head, both = view.task_value("head") or "", view.model.get("bidirectional")
    if head in NEXT_TOKEN_HEADS and both:
        yield (
            f"{view.chosen('task')} asks for the next token, and model.bidirectional=true lets the model see it: set "
            "model.bidirectional=false, or choose task=masked_lm"
        )
    if head.startswith("masked_language_model") and not both:
        yield (
            f"{view.chosen('task')} asks for tokens inside a text, and {view.chosen('model')} sees only what stands "
            "before them: choose model=encoder_only or task=causal_lm, or set model.bidirectional=true"
        )


def _class_token(view: ConfigView) -> Iterator[str]:
    if view.model_value("family") != "vision_transformer" or view.model.get("pooling") != "cls":
        return
    sides = list(view.sides())
    if view.task_value("head") != "pixel_decoder" and all(side.can("mixer", "leaves_class_token") for side in sides):
        yield (
            f"model.pooling=cls reads a class token, which sees no patch through {view.chosen_of(sides[0], 'mixer')}: "
            "use model.pooling=mean, or a model.pattern with another mixer"
        )


def _module(view: ConfigView) -> Iterator[str]:
    if view.model_value("family") == "external" and not view.model.get("module"):
        yield (
            "model=external wraps your own module, and model.module is null: give model.module._target_="
            "package.Class and its arguments, model.module.width=64"
        )


def _checkpointing(view: ConfigView) -> Iterator[str]:
    kind = view.config["checkpointing"].get("kind", "none")
    if kind != "none" and view.model_value("family") in _WITHOUT_STACK:
        does = (
            "moves what the blocks of a stack save to the processor's memory"
            if kind == "offload"
            else "makes the blocks of a stack again in the backward pass"
        )
        yield (f"checkpointing={kind} {does}, and {view.chosen('model')} has no such blocks: use checkpointing=none")
    if kind == "offload" and view.trainer.get("compile"):
        yield (
            "checkpointing=offload moves activations between the operations of a block, which trainer.compile=true "
            "fuses: set it to false, or use checkpointing=full, attention or none"
        )


def _drop_path(view: ConfigView) -> Iterator[str]:
    rate = view.model.get("drop_path")
    sides = list(view.sides()) if rate else []
    if sides and all(view.depth(side) == 1 for side in sides):
        yield (
            f"model.drop_path={rate} grows from 0 at the first layer to that at the last, and there is one layer, of "
            "which nothing would be dropped: set model.drop_path=0, or give more layers"
        )
    for side in sides:
        if side.can("residual", "has_stream") is False:
            yield (
                f"model.drop_path={rate} skips branches of a residual stream, and "
                f"{view.chosen_of(side, 'residual')} has no stream: set model.drop_path=0, or choose model/residual=pre"
            )


def _hidden_patches(view: ConfigView) -> Iterator[str]:
    """Refuse patches of two sizes, and what goes by the order of tokens: patches that the model sees side by side are
    not neighbours in the image."""
    if view.task_value("head") != "pixel_decoder":
        return
    for side in view.sides():
        for slot, instead in _WITHOUT_ORDER.items():
            if side.can(slot, "follows_order"):
                yield (
                    f"{view.chosen_of(side, slot)} goes by the order of tokens, and {view.chosen('task')} shows the "
                    f"model a few patches, and they are not neighbours in the image: use model/{slot}={instead}"
                )
    own, of_model = view.config["task"].get("patch_size"), view.model.get("patch_size")
    if own is not None and own != of_model:
        yield f"task.patch_size={own} is not that of the model, model.patch_size={of_model}: leave it null"


def _first_norm(view: ConfigView) -> Iterator[str]:
    for side in view.sides():
        if view.model.get("first_norm") is False and not side.can("residual", "begins_with_norm"):
            yield (
                "model.first_norm=false leaves out the norm before the first sublayer, and "
                f"{view.chosen_of(side, 'residual')} has none to leave out there: choose model/residual=pre"
            )
    loops = view.model.get("loops") or 1
    if view.model.get("first_norm") is False and loops > 1:
        yield (
            f"model.first_norm=false lets the first sublayer read the norm after the embedding, and model.loops={loops}"
            " brings it back to the stream, which no norm precedes: set model.first_norm=true, or model.loops=1"
        )


def _local_base(view: ConfigView) -> Iterator[str]:
    for path, sides in groupby(view.sides(), lambda side: side.path):
        mixers = list(sides)
        position = mixers[0].nodes.get("position", {})
        base = position.get("local_base")
        if base is not None and not any(side.can("mixer", "sees_window") for side in mixers):
            yield (
                f"{mixers[0].paths['position']}.local_base={base} is of layers that see a window, and {path} has none: "
                "name sliding_window in a pattern, or set it null"
            )


def _pattern_and_depth(view: ConfigView) -> Iterator[str]:
    for fields, one in product(_fields_of_stacks(view), PATTERNS):
        pattern, depth = view.at(fields.get(one.field)), view.at(fields["num_layers"])
        if pattern and isinstance(depth, int) and len(pattern) > depth:
            yield (
                f"{fields[one.field]} holds {len(pattern)} layers and {fields['num_layers']}={depth}: give at least as "
                "many layers"
            )


def _fields_of_stacks(view: ConfigView) -> list[dict[str, str]]:
    """Return the fields of depth, patterns and early layers of each stack, once where sides share all of them."""
    fields = [view.fields_of(path) for path in dict.fromkeys(side.path for side in view.sides())]
    return [own for index, own in enumerate(fields) if own not in fields[:index]]


def _early_layers(view: ConfigView) -> Iterator[str]:
    early = view.model.get("num_early_layers") or 0
    stacks = _fields_of_stacks(view) if early else []
    with_early = [fields for fields in stacks if "num_early_layers" in fields]
    shared = f"model.{FEEDFORWARDS.field}"
    if view.at(shared) and any(fields.get(FEEDFORWARDS.field) == shared for fields in stacks):
        yield (
            f"model.num_early_layers={early} gives the first layers a feed-forward of their own, and {shared} names "
            "those of all layers: begin the pattern with it, or set model.num_early_layers=0 and "
            "model.early_feedforward=null"
        )
    if with_early and not view.model.get("early_feedforward"):
        yield (
            f"model.num_early_layers={early} says how many layers have a feed-forward of their own, and there is "
            "none: add it by +model/feedforward@model.early_feedforward=CHOICE"
        )
    for fields in with_early:
        depth = view.at(fields["num_layers"])
        if isinstance(depth, int) and early > depth:
            yield (
                f"model.num_early_layers={early} is more than the {depth} layers that there are, by "
                f"{fields['num_layers']}: give at most as many"
            )


def _loops(view: ConfigView) -> Iterator[str]:
    loops = view.model.get("loops") or 1
    for side in view.sides() if loops > 1 else ():
        for slot, name in (("feedforward", "balance"), ("norm", "keeps_statistics")):
            if side.can(slot, name):
                yield (
                    f"model.loops={loops} passes each layer several times, and {view.chosen_of(side, slot)} takes "
                    "figures of one pass: choose another, or set model.loops=1"
                )


def _one_expert(view: ConfigView) -> Iterator[str]:
    """Refuse a router that no gradient of the task reaches; published weights are read as they are."""
    if view.config.get("init_from"):
        return
    for side in view.sides():
        node = side.nodes.get("feedforward") or {}
        if node.get("experts_per_token") == 1 and node.get("num_experts", 1) > 1 and node.get("renormalise"):
            path = side.paths["feedforward"]
            yield (
                f"{path}.experts_per_token=1 with renormalise=true gives every token's expert the weight 1, so that "
                f"the task teaches the router nothing: set {path}.renormalise=false, as Switch does, or "
                f"{path}.experts_per_token=2"
            )


def _average(view: ConfigView) -> Iterator[str]:
    """Refuse averages of vectors of length 1, which are shorter."""
    for side in view.sides():
        path = f"{side.paths['residual']}.unit_weights" if side.nodes.get("residual", {}).get("unit_weights") else ""
        if path and view.trainer.get("weight_averaging") is not None:
            yield (
                f"{path}=true keeps vectors at length 1, and the averages of trainer.weight_averaging="
                f"{view.trainer['weight_averaging']} are shorter: set trainer.weight_averaging=null"
            )


def finetuning_rules() -> tuple[Callable[[ConfigView], Iterator[str]], ...]:
    return (_layers, _nothing_left, _statistics)


def _layers(view: ConfigView) -> Iterator[str]:
    freeze, layers = _freeze(view), _num_layers(view)
    if isinstance(freeze, int) and layers is not None and not 0 < freeze <= layers:
        number = {0: "", 1: "1, "}.get(layers, f"a number from 1 to {layers}, ")
        yield (
            f"finetuning.freeze={freeze} freezes layers, and {view.chosen('model')} has {layers} of them to freeze: "
            f"give {number}nothing, embedding or body"
        )


def _nothing_left(view: ConfigView) -> Iterator[str]:
    """A head that is the embedding's table, without a bias, has no weights of its own."""
    freeze = _freeze(view)
    is_all = freeze == "body" or (isinstance(freeze, int) and freeze == _num_layers(view))
    head = view.task_value("head")
    if is_all and head == "text_vector" and view.model.get("pooler", "none") == "none":
        yield (
            f"finetuning.freeze={freeze} leaves nothing to train, since {view.chosen('task')} takes the body's vectors "
            "as they are: set model.pooler=tanh, or freeze less"
        )
    is_table = head == "language_model" and view.model.get("tie_weights")
    if is_all and is_table and not view.model.get("head_bias"):
        yield (
            f"finetuning.freeze={freeze} leaves nothing to train, since model.tie_weights=true makes the head of "
            "the frozen embedding: set model.tie_weights=false, or freeze less"
        )


def _statistics(view: ConfigView) -> Iterator[str]:
    """Refuse to freeze only some norms of networks without a stack; a stack refuses it once it is built."""
    freeze = _freeze(view)
    for side in view.sides():
        if freeze != "nothing" and _num_layers(view) == 0 and side.can("norm", "keeps_statistics"):
            yield (
                f"finetuning.freeze={freeze} cannot freeze {view.chosen_of(side, 'norm')}, whose statistics keep "
                "following the data: use another norm, or finetuning.freeze=nothing"
            )


def _freeze(view: ConfigView) -> str | int:
    freeze: str | int = view.config["finetuning"].get("freeze", "nothing")
    return freeze


def _num_layers(view: ConfigView) -> int | None:
    """Return the layers of all stacks; None of a module of somebody else's, and where the depth is not given."""
    if view.model_value("family") in (None, "external"):
        return None
    depths = {side.path: view.depth(side) for side in view.sides() if "mixer" in side.nodes}
    known = [depth for depth in depths.values() if depth is not None]
    return sum(known) if len(known) == len(depths) else None
