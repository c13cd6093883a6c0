"""Switch transformers (Fedus et al. 2021, https://arxiv.org/abs/2101.03961): T5 with experts in some layers, of which
every token meets one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.components.feedforwards import inner_width
from headtohead.pretrained.layer_kinds import feedforward_paths, repeated_part, shared_fields
from headtohead.pretrained.model_description import Describable, Model, described
from headtohead.pretrained.model_family import (
    READING,
    Accepted,
    Architectures,
    Hub,
    HubConfig,
    InexpressibleError,
    our_activation,
    their_activation,
)
from headtohead.pretrained.t5 import T5Family
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping

_SIDES = {
    "encoder": ("num_layers", "num_sparse_encoder_layers"),
    "decoder": ("num_decoder_layers", "num_sparse_decoder_layers"),
}
"""The fields of each side: its layers, and how many of them have experts."""
_CHOICES = {False: "relu", True: "moe"}
_CLASSES = {False: "DenseFeedForward", True: "MixtureOfExperts"}
_ALL_TOKENS = 2**20
"""A capacity that no row reaches: experts of ours leave no token out."""


class SwitchTransformersFamily(T5Family):
    """Feed-forwards without gates and biases; the router chooses the expert with the highest probability, which
    multiplies its output."""

    model_type = "switch_transformers"
    architectures: ClassVar[Architectures] = {
        "SwitchTransformersForConditionalGeneration": "language_model",
        "SwitchTransformersModel": None,
        "SwitchTransformersEncoderModel": None,
    }
    synonyms: ClassVar[Mapping[str, str]] = {
        name: field for name, field in T5Family.synonyms.items() if name != "head_dim"
    }
    defaults: ClassVar[Hub] = {
        **{name: value for name, value in T5Family.defaults.items() if name != "feed_forward_proj"},
        "dense_act_fn": "relu",
        "expert_capacity": 64,
        "num_experts": 8,
        "num_sparse_encoder_layers": 3,
        "num_sparse_decoder_layers": 3,
        "router_z_loss_coef": 0.001,
        "router_aux_loss_coef": 0.001,
        "tie_word_embeddings": True,
    }
    accepts: ClassVar[Accepted] = {"router_bias": (False,), "tie_word_embeddings": (True,)}

    def complete(self, config: Mapping[str, object]) -> Hub:
        """Complete the configuration; refuse numbers of experts and of layers with them that are none."""
        hub = super().complete(config)
        for field in ("num_experts", *(sparse for _, sparse in _SIDES.values())):
            if type(hub[field]) is not int or hub[field] < (field == "num_experts"):
                raise InexpressibleError(
                    f"its config.json has {field}={hub[field]}, which must be a whole number of them: correct it"
                )
        return hub

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del head
        if hub["expert_capacity"] != _ALL_TOKENS:
            yield (
                f"its experts take the first {hub['expert_capacity']} tokens of a row that choose them and leave the "
                "others out; here they take all, which is equal for rows of at most that length"
            )

    def feedforward_overrides(self, hub: Hub, head: HeadName) -> list[str]:
        sides = ("encoder",) if head in READING else tuple(_SIDES)
        patterns = {side: repeated_part(_are_sparse(*(hub[field] for field in _SIDES[side]))) for side in sides}
        alike = len(set(map(tuple, patterns.values()))) == 1
        named = {side: ",".join(_CHOICES[is_sparse] for is_sparse in pattern) for side, pattern in patterns.items()}
        fields = {
            "activation": our_activation(hub["dense_act_fn"]),
            "multiple": hub["d_ff"] / hub["d_model"],
            "bias": "false",
        }
        routing = {
            "num_experts": hub["num_experts"],
            "experts_per_token": 1,
            "renormalise": "false",
            "balance_weight": hub["router_aux_loss_coef"],
            "z_weight": hub["router_z_loss_coef"],
        }
        used = sorted({is_sparse for pattern in patterns.values() for is_sparse in pattern})
        return [
            *(
                [f"model.feedforward_pattern=[{named['encoder']}]"]
                if alike
                else [f"model.{side}.feedforward_pattern=[{names}]" for side, names in named.items()]
            ),
            *(
                f"model.feedforwards.{_CHOICES[is_sparse]}.{name}={value}"
                for is_sparse in used
                for name, value in {**fields, **(routing if is_sparse else {})}.items()
            ),
        ]

    def feedforward_pieces(self, hub: Hub, side: str, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        if not _are_sparse(*(hub[field] for field in _SIDES[side]))[layer]:
            yield from _maps(ours, f"{theirs}.mlp")
            return
        yield Renamed(f"{ours}.router.weight", f"{theirs}.mlp.router.classifier.weight")
        for expert in range(hub["num_experts"]):
            yield from _maps(f"{ours}.experts.{expert}", f"{theirs}.mlp.experts.expert_{expert}")

    def feedforward_words(self, model: Model) -> Describable:
        paths = list(dict.fromkeys(path for side in _SIDES for path in feedforward_paths(model, side)))
        activation = described(model, f"{paths[0]}.activation")
        words: dict[str, Sequence[object]] = {"tie_weights": (True,), "scale_logits": (True,)}
        words |= {
            f"{where}feedforward_pattern": (described(model, f"{where}feedforward_pattern"),)
            for where in ("", *(f"{side}." for side in _SIDES))
        }
        for path in paths:
            words |= {
                path: tuple(_CLASSES.values()),
                f"{path}.gated": (False,),
                f"{path}.bias": (False,),
                f"{path}.activation": (activation,),
                f"{path}.experts_per_token": (None, 1),
                f"{path}.renormalise": (None, False),
            }
        return words

    def feedforward_config(self, model: Model) -> HubConfig:
        by_side = {side: feedforward_paths(model, side) for side in _SIDES}
        all_paths = [path for paths in by_side.values() for path in paths]
        experts = shared_fields(model, [path for path in all_paths if _has_experts(model, path)], self.model_type)
        dense = shared_fields(model, [path for path in all_paths if not _has_experts(model, path)], self.model_type)
        widths = {
            inner_width(model["d_model"], node["multiple"], two_thirds=node["two_thirds"])
            for node in (dense, experts)
            if node
        }
        if len(widths) > 1:
            raise InexpressibleError(
                f"dense feed-forwards and experts are {' and '.join(map(str, sorted(widths)))} wide, and "
                f"{self.model_type} has one width for both: give both the same multiple"
            )
        counts = {
            _SIDES[side][1]: self._number_of_sparse_layers([_has_experts(model, path) for path in paths], side)
            for side, paths in by_side.items()
        }
        routing = (
            {
                "num_experts": experts["num_experts"],
                "expert_capacity": _ALL_TOKENS,
                "router_aux_loss_coef": experts["balance_weight"],
                "router_z_loss_coef": experts["z_weight"],
            }
            if experts
            else {}
        )
        activation = their_activation((dense or experts)["activation"])
        return {"d_ff": widths.pop(), "dense_act_fn": activation, **counts, **routing}

    def _number_of_sparse_layers(self, are_sparse: Sequence[bool], side: str) -> int:
        """Return the number from which config.json's rule makes these layers those with experts."""
        for number in range(len(are_sparse) + 2):
            if _are_sparse(len(are_sparse), number) == are_sparse:
                return number
        layers = [layer for layer, is_sparse in enumerate(are_sparse) if is_sparse]
        raise InexpressibleError(
            f"experts are in the layers {layers} of the {side}, and {self.model_type} has them in all, in none, or "
            "once in a period from the second layer: keep our own form"
        )


def _are_sparse(num_layers: int, num_sparse: int) -> list[bool]:
    """Return which layers have experts, by the reference's rule; where it asks for none, the second layer has them, of
    more than one."""
    step = num_layers // num_sparse if num_sparse > 0 else num_layers
    return [step > 0 and (step == 1 or layer % step == 1) for layer in range(num_layers)]


def _has_experts(model: Model, path: str) -> bool:
    return bool(described(model, path) == _CLASSES[True])


def _maps(ours: str, theirs: str) -> Iterator[WeightMapping]:
    for our_part, their_part in (("up", "wi"), ("down", "wo")):
        yield Renamed(f"{ours}.{our_part}.weight", f"{theirs}.{their_part}.weight")
