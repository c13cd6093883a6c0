"""Hybrids of state spaces and attention whose files name the state spaces' fields alike: Bamba (IBM, Princeton, CMU and
UIUC 2024, https://huggingface.co/blog/bamba) and Jamba (AI21 Labs 2024, https://arxiv.org/abs/2403.19887)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from headtohead.pretrained.config_fields import rope_parameters, rotary_fields
from headtohead.pretrained.decoder_family import PatternedFamily
from headtohead.pretrained.layer_kinds import EVERYTHING, WINDOWS, LayerKind, kinds_of_layers, period_of
from headtohead.pretrained.llama_descendants import routing_config, routing_fields
from headtohead.pretrained.mamba import UNBOUNDED_STEPS
from headtohead.pretrained.model_description import Describable, Model, described
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, HubConfig, InexpressibleError, flag
from headtohead.pretrained.sparse_layers import SparseLayers
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping
from headtohead.pretrained.without_positions import WithoutPositions

_STATES = "linear_attention"
_SIZES = {"state": "mamba_d_state", "conv": "mamba_d_conv", "expand": "mamba_expand"}
_BIASES = {"bias": "mamba_proj_bias", "conv_bias": "mamba_conv_bias"}


class MambaHybrid(PatternedFamily):
    """Root-mean-square norms before each sublayer, a gated feed-forward, and state spaces in most layers."""

    state_space: ClassVar[tuple[str, ...]]
    """The weights of a state space; both sides use the same names. Biases that config.json decides on are not among
    them."""
    defaults: ClassVar[Hub] = {
        "num_key_value_heads": 8,
        "head_dim": None,
        "hidden_act": "silu",
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_conv_bias": True,
        "mamba_proj_bias": False,
        "tie_word_embeddings": False,
    }
    layer_norms = ("input_layernorm", "pre_ff_layernorm")
    last_norm = "model.final_layernorm"
    feedforward_place = "feed_forward"
    accepts: ClassVar[Accepted] = {"is_causal": (True,), "hidden_act": ("silu", "swish")}
    """The activation is that of the state spaces too."""

    def mixer_fields(self, hub: Hub, kind: str) -> Mapping[str, object]:
        if kind == EVERYTHING:
            return self.attention_overrides(hub)
        sizes = {name: hub[field] for name, field in _SIZES.items()}
        return {**sizes, **{name: flag(hub[field]) for name, field in _BIASES.items()}}

    def mixer_pieces(self, hub: Hub, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        if self.layer_kinds(hub)[layer] == EVERYTHING:
            yield from super().mixer_pieces(hub, layer, ours, theirs)
            return
        biases = ["in_proj.bias", "out_proj.bias"] if hub["mamba_proj_bias"] else []
        biases += ["conv1d.bias"] if hub["mamba_conv_bias"] else []
        for name in (*self.state_space, *biases):
            yield Renamed(f"{ours}.{name}", f"{theirs}.mamba.{name}")

    def config_of_kinds(self, model: Model, by_kind: Mapping[str, Hub]) -> HubConfig:
        states = by_kind[_STATES]
        fields = {field: states[name] for name, field in {**_SIZES, **_BIASES}.items() if name in states}
        if (expand := states.get("expand", 1)) != int(expand):
            raise InexpressibleError(
                f"the mixers of model.pattern have expand={expand}, and {self.model_type} supports only whole numbers: "
                "keep our own form, or train with one"
            )
        fields["mamba_expand"] = int(expand)
        return {**self.attention_config(model, by_kind[EVERYTHING]), **fields}


class BambaFamily(MambaHybrid):
    """Mamba-2 in most layers, and attention that turns a half of each head in those that its file lists."""

    model_type = "bamba"
    architectures: ClassVar[Architectures] = {"BambaForCausalLM": "language_model", "BambaModel": None}
    defaults: ClassVar[Hub] = {
        **MambaHybrid.defaults,
        "rms_norm_eps": 1e-5,
        "attn_layer_indices": None,
        "attention_bias": False,
        "mlp_bias": False,
        "mamba_n_heads": 128,
        "mamba_d_head": "auto",
        "mamba_n_groups": 1,
        "mamba_d_state": 256,
    }
    accepts: ClassVar[Accepted] = {**MambaHybrid.accepts, "time_step_limit": UNBOUNDED_STEPS}
    kinds: ClassVar[Mapping[str, LayerKind]] = {
        EVERYTHING: WINDOWS[EVERYTHING],
        _STATES: LayerKind("mamba2", "Mamba2"),
    }
    bias_fields: ClassVar[tuple[str, ...]] = ("attention_bias", "mlp_bias")
    state_space = ("in_proj.weight", "conv1d.weight", "dt_bias", "A_log", "D", "norm.weight", "out_proj.weight")

    def complete(self, config: Hub) -> Hub:
        """Complete the configuration; refuse heads that do not share the inner channels of a state space."""
        hub = super().complete(config)
        width, heads = hub["mamba_expand"] * hub["hidden_size"], hub["mamba_n_heads"]
        of_head = width // heads if hub["mamba_d_head"] == "auto" else hub["mamba_d_head"]
        if of_head * heads != width:
            raise InexpressibleError(
                f"its config.json has mamba_n_heads={heads} and mamba_d_head={hub['mamba_d_head']}, and there are "
                f"{width} inner channels: correct it"
            )
        return {**hub, "mamba_d_head": of_head}

    def layer_kinds(self, hub: Hub) -> list[str]:
        attention = hub["attn_layer_indices"] or ()
        return [EVERYTHING if layer in attention else _STATES for layer in range(hub["num_hidden_layers"])]

    def kinds_config(self, kinds: Sequence[str]) -> HubConfig:
        return {"attn_layer_indices": [layer for layer, kind in enumerate(kinds) if kind == EVERYTHING]}

    def rotated(self, hub: Hub) -> int:
        """Return a half of each head, unless its rotary parameters name another share; a field beside them is ignored,
        as the reference ignores it."""
        rope = hub.get("rope_scaling") or hub.get("rope_parameters") or {}
        share: float = rope.get("partial_rotary_factor", 0.5)
        return int(self.head_width(hub) * share)

    def mixer_fields(self, hub: Hub, kind: str) -> Mapping[str, object]:
        fields = super().mixer_fields(hub, kind)
        if kind == EVERYTHING:
            return fields
        own = {"head_width": hub["mamba_d_head"], "num_groups": hub["mamba_n_groups"], "eps": hub["rms_norm_eps"]}
        return {**fields, **own}

    def config_of_kinds(self, model: Model, by_kind: Mapping[str, Hub]) -> HubConfig:
        config, states = super().config_of_kinds(model, by_kind), by_kind[_STATES]
        width = config["mamba_expand"] * model["d_model"]
        of_head = states.get("head_width") or width // model["num_heads"]
        heads = {"mamba_n_heads": width // of_head, "mamba_d_head": of_head}
        return {**config, **heads, "mamba_n_groups": states.get("num_groups", 1)}

    def position_overrides(self, hub: Hub) -> list[str]:
        has_attention = EVERYTHING in self.layer_kinds(hub)
        return super().position_overrides(hub) if has_attention else ["model/position=none"]

    def position_config(self, model: Model) -> HubConfig:
        if EVERYTHING not in kinds_of_layers(model, self.kinds):
            return {}
        return rotary_fields({**rope_parameters(model), "partial_rotary_factor": model["position"]["fraction"]})

    def mixer_words(self, model: Model, path: str) -> Describable:
        words = super().mixer_words(model, path)
        is_attention = described(model, path) == self.kinds[EVERYTHING].made_by
        return words if is_attention else {**words, f"{path}.eps": (described(model, "norm.eps"),)}


class JambaFamily(SparseLayers, WithoutPositions, MambaHybrid):
    """Mamba with norms of what its tokens choose, and attention once in a period of layers, experts once in
    another."""

    model_type = "jamba"
    architectures: ClassVar[Architectures] = {
        "JambaForCausalLM": "language_model",
        "JambaModel": None,
        "JambaForSequenceClassification": None,
    }
    synonyms: ClassVar[Mapping[str, str]] = {"num_local_experts": "num_experts"}
    defaults: ClassVar[Hub] = {
        **MambaHybrid.defaults,
        "rms_norm_eps": 1e-6,
        "attn_layer_period": 8,
        "attn_layer_offset": 4,
        "num_experts": 16,
        "num_experts_per_tok": 2,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "router_aux_loss_coef": 0.001,
        "mamba_d_state": 16,
        "mamba_dt_rank": "auto",
    }
    kinds: ClassVar[Mapping[str, LayerKind]] = {
        EVERYTHING: WINDOWS[EVERYTHING],
        _STATES: LayerKind("mamba", "Mamba"),
    }
    state_space = (
        "in_proj.weight", "conv1d.weight", "x_proj.weight", "dt_proj.weight", "dt_proj.bias", "A_log", "D",
        "out_proj.weight", "dt_layernorm.weight", "b_layernorm.weight", "c_layernorm.weight",
    )  # fmt: skip
    feedforward = ("moe", "MixtureOfExperts")
    experts_field = "num_experts"

    def complete(self, config: Hub) -> Hub:
        """Complete the configuration; refuse periods, numbers of experts and ranks that are none."""
        hub = super().complete(config)
        for kind in ("attn", "expert"):
            period, offset = hub[f"{kind}_layer_period"], hub[f"{kind}_layer_offset"]
            if type(period) is not int or type(offset) is not int or not 0 <= offset < period:
                raise InexpressibleError(
                    f"its config.json has {kind}_layer_offset={offset} and {kind}_layer_period={period}, which must be "
                    "a whole number from 0 and a larger one: correct them"
                )
        if type(hub["num_experts"]) is not int:
            raise InexpressibleError(
                f"its config.json has num_experts={hub['num_experts']}, which must be a whole number, 1 for none: "
                "correct it"
            )
        rank = hub["mamba_dt_rank"]
        if rank != "auto" and (type(rank) is not int or rank < 1):
            raise InexpressibleError(
                f"its config.json has mamba_dt_rank={rank}, which is auto or a whole number above 0: correct it"
            )
        return hub

    def layer_kinds(self, hub: Hub) -> list[str]:
        period, offset = hub["attn_layer_period"], hub["attn_layer_offset"]
        return [EVERYTHING if layer % period == offset else _STATES for layer in range(hub["num_hidden_layers"])]

    def kinds_config(self, kinds: Sequence[str]) -> HubConfig:
        """Return the period of attention and its first layer; refuse layers that follow none."""
        return self.period_config("attn", [kind == EVERYTHING for kind in kinds], "attention", "model.pattern")

    def period_config(self, kind: str, has_kind: Sequence[bool], noun: str, field: str) -> HubConfig:
        """Return the period of the layers that have something, and the first of them."""
        if (period := period_of(has_kind)) is None:
            layers = [layer for layer, has in enumerate(has_kind) if has]
            raise InexpressibleError(
                f"{noun} is in the layers {layers} of {field}, and {self.model_type} has it once in a period: keep our "
                "own form"
            )
        return {f"{kind}_layer_period": period[0], f"{kind}_layer_offset": period[1]}

    def mixer_fields(self, hub: Hub, kind: str) -> Mapping[str, object]:
        fields = super().mixer_fields(hub, kind)
        if kind == EVERYTHING:
            return fields
        rank = hub["mamba_dt_rank"]
        return {**fields, "rank": "null" if rank == "auto" else rank, "norm_eps": hub["rms_norm_eps"]}

    def has_experts(self, hub: Hub, layer: int) -> bool:
        among: bool = layer % hub["expert_layer_period"] == hub["expert_layer_offset"]
        return among and hub["num_experts"] > 1

    def expert_width(self, hub: Hub) -> int:
        width: int = hub["intermediate_size"]
        return width

    def expert_fields(self, hub: Hub) -> Mapping[str, object]:
        return {"gated": "true", "renormalise": "false", **routing_fields(hub, self.experts_field)}

    def expert_pieces(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        yield from self.experts(hub, f"{ours}.experts", f"{theirs}.experts")
        yield Renamed(f"{ours}.router.weight", f"{theirs}.router.weight")

    def config_of_kinds(self, model: Model, by_kind: Mapping[str, Hub]) -> HubConfig:
        return {**super().config_of_kinds(model, by_kind), "mamba_dt_rank": by_kind[_STATES].get("rank") or "auto"}

    def config_of_layers(
        self, are_sparse: Sequence[bool], experts: HubConfig, dense_width: int | None, expert_width: int | None
    ) -> HubConfig:
        if None not in (dense_width, expert_width) and dense_width != expert_width:
            raise InexpressibleError(
                f"dense feed-forwards are {dense_width} wide and experts {expert_width}, and {self.model_type} has one "
                "width for both: give both the same multiple"
            )
        width = {"intermediate_size": dense_width or expert_width}
        if not experts:
            return {**width, "num_experts": 1}
        period = self.period_config("expert", are_sparse, "a feed-forward with experts", "model.feedforward_pattern")
        return {**width, **period, **routing_config(experts, self.experts_field)}

    def mixer_words(self, model: Model, path: str) -> Describable:
        words = super().mixer_words(model, path)
        is_attention = described(model, path) == self.kinds[EVERYTHING].made_by
        return words if is_attention else {**words, f"{path}.norm_eps": (described(model, "norm.eps"),)}
