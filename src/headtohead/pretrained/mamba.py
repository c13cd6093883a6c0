"""Mamba (Gu and Dao 2023, https://arxiv.org/abs/2312.00752): blocks of one state space each, without a feed-forward."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.model_description import check_describable
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, InexpressibleError, ModelFamily, flag
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping


class StateSpaces(ModelFamily):
    """The base of Mamba and Mamba-2: root-mean-square norms, no positions, a head tied to the embedding."""

    prefix = "backbone."
    heads = ("lm_head.",)
    table = "backbone.embeddings.weight"
    aliases: ClassVar[Mapping[str, str]] = {"backbone.embedding.weight": "backbone.embeddings.weight"}
    mixer: ClassVar[str]
    """Its name in ours."""
    weights: ClassVar[tuple[str, ...]]
    """The weights of a mixer; both sides use the same names. Biases that config.json decides on are not among them."""
    parts: ClassVar[Mapping[str, str]] = {
        "position": "NoPosition",
        "norm": "RmsNorm",
        "residual": "PreNorm",
        "feedforward": "NoFeedForward",
    }

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        return [
            "model=decoder_only",
            f"model/mixer={self.mixer}",
            "model/position=none",
            "model/norm=rms_norm",
            "model/residual=pre",
            "model/feedforward=none",
            f"model.d_model={hub['hidden_size']}",
            f"model.num_layers={hub['num_hidden_layers']}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.norm.eps={hub['layer_norm_epsilon']}",
            f"model.mixer.state={hub['state_size']}",
            f"model.mixer.expand={hub['expand']}",
            f"model.mixer.conv={hub['conv_kernel']}",
            f"model.mixer.bias={flag(hub['use_bias'])}",
            f"model.mixer.conv_bias={flag(hub['use_conv_bias'])}",
            f"model.tie_weights={flag(hub['tie_word_embeddings'])}",
            *self.mixer_overrides(hub),
        ]

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del head
        if hub.get("rescale_prenorm_residual"):
            yield (
                "its weights are taken as they are, and transformers divides out_proj by sqrt(num_hidden_layers) again "
                "as it loads them (rescale_prenorm_residual=true)"
            )

    @abstractmethod
    def mixer_overrides(self, hub: Hub) -> list[str]:
        """Return the mixer overrides that only one of the two has."""

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        biases = ["in_proj.bias", "out_proj.bias"] if hub["use_bias"] else []
        biases += ["conv1d.bias"] if hub["use_conv_bias"] else []
        yield Renamed("embedding.weight", self.table)
        for layer in range(hub["num_hidden_layers"]):
            ours, theirs = f"stack.blocks.{layer}", f"backbone.layers.{layer}"
            yield Renamed(f"{ours}.wiring.norms.0.scale.weight", f"{theirs}.norm.weight")
            for name in (*self.weights, *biases):
                yield Renamed(f"{ours}.mixer.{name}", f"{theirs}.mixer.{name}")
        yield Renamed("stack.final_norm.scale.weight", "backbone.norm_f.weight")

    def hub_config(self, model: Mapping[str, Any]) -> dict[str, Any]:
        self.check_parts(model)
        words = {"pattern": (None,), "local": (None, "Identity"), "embedding_norm": (False,), "head_bias": (False,)}
        check_describable(model, self.model_type, {**words, "scale_embedding": (False,)})
        mixer = model["mixer"]
        if mixer["expand"] != int(mixer["expand"]):
            raise InexpressibleError(
                f"model.mixer.expand={mixer['expand']} cannot be written in the form of {self.model_type}, which "
                f"supports "
                "only whole numbers: keep our own form, or train with one"
            )
        return {
            "model_type": self.model_type,
            "architectures": [next(iter(self.architectures))],
            "hidden_size": model["d_model"],
            "num_hidden_layers": model["num_layers"],
            "vocab_size": model["vocab_size"],
            "layer_norm_epsilon": model["norm"]["eps"],
            "state_size": mixer["state"],
            "expand": int(mixer["expand"]),
            "conv_kernel": mixer["conv"],
            "use_bias": mixer["bias"],
            "use_conv_bias": mixer["conv_bias"],
            "hidden_act": "silu",
            "tie_word_embeddings": model["tie_weights"],
        }


class MambaFamily(StateSpaces):
    """Every channel chooses its step size."""

    model_type = "mamba"
    architectures: ClassVar[Architectures] = {"MambaForCausalLM": "language_model", "MambaModel": None}
    mixer = "mamba"
    weights = (
        "in_proj.weight", "conv1d.weight", "x_proj.weight", "dt_proj.weight", "dt_proj.bias", "A_log", "D",
        "out_proj.weight",
    )  # fmt: skip
    defaults: ClassVar[Hub] = {
        "state_size": 16,
        "expand": 2,
        "conv_kernel": 4,
        "use_bias": False,
        "use_conv_bias": True,
        "layer_norm_epsilon": 1e-5,
        "time_step_rank": "auto",
        "tie_word_embeddings": True,
    }
    accepts: ClassVar[Accepted] = {"hidden_act": ("silu", "swish")}
    parts: ClassVar[Mapping[str, str]] = {**StateSpaces.parts, "mixer": "Mamba"}

    def mixer_overrides(self, hub: Hub) -> list[str]:
        rank = hub["time_step_rank"]
        if rank != "auto" and (type(rank) is not int or rank < 1):
            raise InexpressibleError(
                f"its config.json has time_step_rank={rank}, which is auto or a whole number above 0: correct it"
            )
        return ["model.num_heads=1", f"model.mixer.rank={'null' if rank == 'auto' else rank}"]

    def hub_config(self, model: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().hub_config(model), "time_step_rank": model["mixer"]["rank"] or "auto"}


# Mamba-2 (Dao and Gu 2024, https://arxiv.org/abs/2405.21060): the same blocks, with one decay per head.


UNBOUNDED = float("inf")
UNBOUNDED_STEPS = ([0.0, UNBOUNDED], (0.0, UNBOUNDED), [0.0, {"__float__": "Infinity"}])
"""The spellings of steps without limits."""


class Mamba2Family(StateSpaces):
    """Heads choose step sizes, and the output is normed before its last map."""

    model_type = "mamba2"
    architectures: ClassVar[Architectures] = {"Mamba2ForCausalLM": "language_model", "Mamba2Model": None}
    mixer = "mamba2"
    weights = ("in_proj.weight", "conv1d.weight", "dt_bias", "A_log", "D", "norm.weight", "out_proj.weight")
    defaults: ClassVar[Hub] = {
        "num_heads": 128,
        "head_dim": 64,
        "n_groups": 8,
        "state_size": 128,
        "expand": 2,
        "conv_kernel": 4,
        "use_bias": False,
        "use_conv_bias": True,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False,
    }
    accepts: ClassVar[Accepted] = {
        "hidden_act": ("silu", "swish"),
        "time_step_limit": UNBOUNDED_STEPS,
    }
    parts: ClassVar[Mapping[str, str]] = {**StateSpaces.parts, "mixer": "Mamba2"}

    def mixer_overrides(self, hub: Hub) -> list[str]:
        return [
            f"model.num_heads={hub['num_heads']}",
            f"model.mixer.head_width={hub['head_dim']}",
            f"model.mixer.num_groups={hub['n_groups']}",
            f"model.mixer.eps={hub['layer_norm_epsilon']}",
        ]

    def hub_config(self, model: Mapping[str, Any]) -> dict[str, Any]:
        config, mixer = super().hub_config(model), model["mixer"]
        if mixer["eps"] != model["norm"]["eps"]:
            raise InexpressibleError(
                f"model.mixer.eps={mixer['eps']} and model.norm.eps={model['norm']['eps']} differ, and mamba2 has one "
                "for both: keep our own form, or train with the same"
            )
        width = int(mixer["expand"] * model["d_model"])
        of_head = mixer["head_width"] or width // model["num_heads"]
        return {**config, "num_heads": width // of_head, "head_dim": of_head, "n_groups": mixer["num_groups"]}
