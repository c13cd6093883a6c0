"""T5 (Raffel et al. 2020, https://arxiv.org/abs/1910.10683), and its version 1.1 with gates and a head of its own
(Shazeer 2020, https://arxiv.org/abs/2002.05202)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.model_description import (
    Describable,
    Model,
    attention_fields,
    block_fields,
    check_describable,
    depth,
    described,
    side_fields,
)
from headtohead.pretrained.model_family import (
    ALONE,
    READING,
    Architectures,
    EncoderDecoderFamily,
    Hub,
    HubConfig,
    feedforward_width,
    flag,
    multiple,
    our_activation,
    their_activation,
)
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping

_ATTENTION = (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o"))


class T5Family(EncoderDecoderFamily):
    """Scores are not divided by anything; every layer of a side adds the bias that the first one there holds."""

    model_type = "t5"
    architectures: ClassVar[Architectures] = {
        "T5ForConditionalGeneration": "language_model",
        "T5Model": None,
        "T5EncoderModel": None,
    }
    decoder = "decoder."
    heads = ("lm_head.",)
    synonyms: ClassVar[Mapping[str, str]] = {
        "hidden_size": "d_model",
        "head_dim": "d_kv",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
    }
    buffers = (r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",)
    defaults: ClassVar[Hub] = {
        "num_decoder_layers": None,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
        "dropout_rate": 0.1,
        "layer_norm_epsilon": 1e-6,
        "feed_forward_proj": "relu",
    }

    def complete(self, config: Mapping[str, object]) -> Hub:
        """Complete the configuration as the reference does: explicit fields about logits and gates override implicit
        ones.

        Version 1.1 has a vocabulary matrix of its own, and so does not scale the logits.
        """
        hub = dict(super().complete(config))
        scaled = hub.get("scale_decoder_outputs", hub.get("tie_word_embeddings") is not False)
        return {
            **hub,
            "scale_decoder_outputs": scaled,
            "tie_word_embeddings": scaled,
            "num_decoder_layers": hub["num_decoder_layers"] or hub["num_layers"],
        }

    def written(self, config: Mapping[str, object]) -> Hub:
        return {**self.complete(config), "tie_word_embeddings": config["tie_word_embeddings"]}

    def completed_by_names(self, hub: Hub, names: Callable[[], Container[str]]) -> Hub:
        """Return it with what newer files leave to their tensors: they call themselves tied whether or not they are."""
        if hub["scale_decoder_outputs"]:
            return hub
        return {**hub, "tie_word_embeddings": "lm_head.weight" not in names()}

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        width = hub["d_model"]
        attention = ("bias=false", "scale=1.0", f"head_width={hub['d_kv']}")
        own = [
            "model=encoder_decoder",
            "model/cross=softmax_attention",
            f"model.decoder.num_layers={hub['num_decoder_layers']}",
            *(f"model.cross.{option}" for option in attention),
            "model.share_embeddings=true",
            f"model.tie_weights={flag(hub['tie_word_embeddings'])}",
            f"model.scale_logits={flag(hub['scale_decoder_outputs'])}",
        ]
        return [
            *(ALONE if head in READING else own),
            "model/mixer=softmax_attention",
            "model/position=t5_bias",
            "model/norm=rms_norm",
            "model/residual=pre",
            *self.feedforward_overrides(hub, head),
            f"model.d_model={width}",
            f"model.num_layers={hub['num_layers']}",
            f"model.num_heads={hub['num_heads']}",
            f"model.vocab_size={hub['vocab_size']}",
            *(f"model.mixer.{option}" for option in attention),
            f"model.position.num_buckets={hub['relative_attention_num_buckets']}",
            f"model.position.max_distance={hub['relative_attention_max_distance']}",
            f"model.norm.eps={hub['layer_norm_epsilon']}",
            f"model.dropout={hub['dropout_rate']}",
            "model.scale_embedding=false",
        ]

    def feedforward_overrides(self, hub: Hub, head: HeadName) -> list[str]:
        """Return the overrides of the feed-forwards."""
        del head
        gated, activation = _activation(hub)
        return [
            "model/feedforward=relu",
            multiple(hub["d_ff"], hub["d_model"]),
            f"model.feedforward.activation={activation}",
            f"model.feedforward.gated={flag(gated)}",
            "model.feedforward.bias=false",
        ]

    def embedding(self) -> WeightMapping:
        return Renamed("embedding.weight", "shared.weight")

    def side(self, hub: Hub, side: str, ours: str) -> Iterator[WeightMapping]:
        first = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield Renamed(f"{ours}.positions.0.table", first)
        last = 1 if side == "encoder" else 2
        for layer in range(hub["num_layers" if side == "encoder" else "num_decoder_layers"]):
            our_block, their_block = f"{ours}.blocks.{layer}", f"{side}.block.{layer}.layer"
            yield from _attention_and_norms(our_block, their_block, last)
            yield from self.feedforward_pieces(hub, side, layer, f"{our_block}.feedforward", f"{their_block}.{last}")
        yield Renamed(f"{ours}.final_norm.scale.weight", f"{side}.final_layer_norm.weight")

    def feedforward_pieces(self, hub: Hub, side: str, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        """Yield the weights of a layer's feed-forward."""
        del side, layer
        maps = [("gate", "wi_0"), ("up", "wi_1")] if _activation(hub)[0] else [("up", "wi")]
        for our_part, their_part in (*maps, ("down", "wo")):
            yield Renamed(f"{ours}.{our_part}.weight", f"{theirs}.DenseReluDense.{their_part}.weight")

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        if head == "language_model" and not hub["tie_word_embeddings"]:
            yield Renamed("head.weight", "lm_head.weight")

    def tied(self, hub: Hub) -> Mapping[str, str]:
        names = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
        if hub["tie_word_embeddings"]:
            names.append("lm_head.weight")
        return dict.fromkeys(names, "shared.weight")

    def hub_config(self, model: Model) -> dict[str, Any]:
        heads, width = model["num_heads"], model["d_model"]
        tied = described(model, "tie_weights")
        plain = {part: attention_fields(model, part, bias=False, scale=1.0) for part in ("mixer", "cross")}
        head_width = described(model, "mixer.head_width") or width // heads
        own = {f"{part}.head_width": (head_width, *((None,) if head_width * heads == width else ())) for part in plain}
        words = {
            "": ("EncoderDecoder",),
            **{
                path: values
                for path, values in block_fields("PreNorm", norm="RmsNorm").items()
                if "feedforward" not in path
            },
            **plain["mixer"],
            **plain["cross"],
            **own,
            **side_fields("encoder", "decoder"),
            "scale_logits": (False, *((True,) if tied else ())),
            **self.feedforward_words(model),
            "position": ("T5Bias",),
            "embedding_norm": (False,),
            "scale_embedding": (False,),
            "share_embeddings": (True,),
            "head_bias": (False,),
        }
        check_describable(model, self.model_type, words)
        return {
            "model_type": self.model_type,
            "vocab_size": model["vocab_size"],
            "d_model": width,
            "d_kv": head_width,
            "num_layers": depth(model, "encoder"),
            "num_decoder_layers": depth(model, "decoder"),
            "num_heads": heads,
            "relative_attention_num_buckets": described(model, "position.num_buckets"),
            "relative_attention_max_distance": described(model, "position.max_distance"),
            "dropout_rate": model["dropout"],
            "layer_norm_epsilon": described(model, "norm.eps"),
            **self.feedforward_config(model),
            "is_encoder_decoder": True,
            "tie_word_embeddings": tied,
            **({"scale_decoder_outputs": False} if tied and not model["scale_logits"] else {}),
        }

    def feedforward_words(self, model: Model) -> Describable:
        """Return what this format can express of the feed-forwards."""
        gated = described(model, "feedforward.gated")
        return {
            "feedforward": ("DenseFeedForward",),
            "feedforward.gated": (True, False),
            "feedforward.bias": (False,),
            "feedforward.activation": ("gelu_tanh" if gated else described(model, "feedforward.activation"),),
        }

    def feedforward_config(self, model: Model) -> HubConfig:
        """Return the fields of the feed-forwards."""
        node = model["feedforward"]
        named = "gated-gelu" if node["gated"] else their_activation(node["activation"])
        return {"d_ff": feedforward_width(model), "feed_forward_proj": named}


def _attention_and_norms(ours: str, theirs: str, last: int) -> Iterator[WeightMapping]:
    """Yield the weights of one block but for its feed-forward, which is the last of its numbered sublayers there."""
    for index, (our_name, their_name) in enumerate((("mixer", "SelfAttention"), ("cross", "EncDecAttention"))[:last]):
        for our_part, their_part in _ATTENTION:
            yield Renamed(f"{ours}.{our_name}.{our_part}.weight", f"{theirs}.{index}.{their_name}.{their_part}.weight")
    for index in range(last + 1):
        yield Renamed(f"{ours}.wiring.norms.{index}.scale.weight", f"{theirs}.{index}.layer_norm.weight")


def _activation(hub: Hub) -> tuple[bool, str]:
    """Return whether there is a gate, and our name of the activation; `gated-gelu` means the tanh approximation."""
    projection = hub["feed_forward_proj"]
    kind, _, name = projection.rpartition("-")
    named = "gelu_new" if projection == "gated-gelu" else name
    return bool(hub.get("is_gated_act", kind == "gated")), our_activation(hub.get("dense_act_fn", named))
