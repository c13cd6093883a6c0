"""What BERT (Devlin et al. 2019, https://arxiv.org/abs/1810.04805) and its descendants have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from headtohead.architectures.heads import HeadName
from headtohead.pretrained.family import Accepted, Family, Hub
from headtohead.pretrained.names import feedforward_width, multiple, our_activation, their_activation
from headtohead.pretrained.pieces import OffsetRows, Piece, Renamed, renamed
from headtohead.pretrained.told import Model, Words, attention_words, block_words, check_words, labels, told

LAYER = (
    ("mixer.query", "attention.self.query"),
    ("mixer.key", "attention.self.key"),
    ("mixer.value", "attention.self.value"),
    ("mixer.output", "attention.output.dense"),
    ("wiring.norms.0", "attention.output.LayerNorm"),
    ("feedforward.up", "intermediate.dense"),
    ("feedforward.down", "output.dense"),
    ("wiring.norms.1", "output.LayerNorm"),
)
"""Our parts of a block and theirs; each has a weight and a bias."""


class BertLike(Family):
    """An encoder with norms after each sum and after the embeddings, learned places, and sentences of two kinds."""

    buffers = (r".*embeddings\.(position_ids|token_type_ids)",)
    defaults: ClassVar[Hub] = {
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "layer_norm_eps": 1e-12,
        "type_vocab_size": 2,
    }
    accepts: ClassVar[Accepted] = {
        "tie_word_embeddings": (True,),
        "position_embedding_type": ("absolute",),
        "is_decoder": (False,),
        "add_cross_attention": (False,),
    }

    more_of_a_layer: ClassVar[tuple[tuple[str, str], ...]] = ()
    """What a descendant adds to a block, each with a weight and a bias."""

    def first_place(self, hub: Hub) -> int:
        """The row of the table of places that the first token has."""
        del hub
        return 0

    def mixing(self, hub: Hub, head: HeadName) -> list[str]:
        """The mixer, and what there is to say of it."""
        del hub, head
        return ["model/mixer=softmax_attention"]

    def heading(self, hub: Hub) -> list[str]:
        """What the heads are made of, besides linear maps."""
        return [f"model.head_activation={our_activation(hub['hidden_act'])}", "model.pooler=tanh"]

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        width = hub["hidden_size"]
        return [
            "model=encoder_only",
            *self.mixing(hub, head),
            "model/position=learned",
            "model/norm=layer_norm",
            "model/residual=post",
            "model/feedforward=gelu",
            f"model.d_model={width}",
            f"model.num_layers={hub['num_hidden_layers']}",
            f"model.num_heads={hub['num_attention_heads']}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.max_length={hub['max_position_embeddings'] - self.first_place(hub)}",
            f"model.num_segments={hub['type_vocab_size']}",
            f"model.norm.eps={hub['layer_norm_eps']}",
            multiple(hub["intermediate_size"], width),
            f"model.feedforward.activation={our_activation(hub['hidden_act'])}",
            f"model.dropout={hub['hidden_dropout_prob']}",
            "model.tie_weights=true",
            "model.embedding_norm=true",
            "model.pooling=cls",
            *self.heading(hub),
        ]

    def pieces(self, hub: Hub) -> Iterator[Piece]:
        there = f"{self.prefix}embeddings"
        yield Renamed("embedding.weight", f"{there}.word_embeddings.weight")
        yield OffsetRows("stack.positions.0.table.weight", f"{there}.position_embeddings.weight", self.first_place(hub))
        if hub["type_vocab_size"]:
            yield Renamed("segment_embedding.weight", f"{there}.token_type_embeddings.weight")
        yield from renamed("stack.embedding_norm", f"{there}.LayerNorm")
        for layer in range(hub["num_hidden_layers"]):
            ours, theirs = f"stack.blocks.{layer}", f"{self.prefix}encoder.layer.{layer}"
            for our_name, their_name in (*LAYER, *self.more_of_a_layer):
                yield from renamed(f"{ours}.{our_name}", f"{theirs}.{their_name}")

    def hub_config(self, model: Model) -> dict[str, Any]:
        check_words(model, self.model_type, {**self.words(model), **self.mixer_words(model)})
        activation = their_activation(told(model, "feedforward.activation"))
        return {
            "model_type": self.model_type,
            "vocab_size": model["vocab_size"],
            "hidden_size": model["d_model"],
            "num_hidden_layers": model["num_layers"],
            "num_attention_heads": model["num_heads"],
            "intermediate_size": feedforward_width(model),
            "hidden_act": activation,
            "hidden_dropout_prob": model["dropout"],
            "attention_probs_dropout_prob": model["dropout"],
            "max_position_embeddings": model["max_length"] + self.first_place(self.defaults),
            "type_vocab_size": model["num_segments"],
            "layer_norm_eps": told(model, "norm.eps"),
            **labels(model),
        }

    def words(self, model: Model) -> Words:
        """What this form can say, the mixer left out."""
        activation = told(model, "feedforward.activation")
        return {
            "": ("EncoderOnly",),
            **block_words("Post"),
            "position": ("Learned",),
            "embedding_norm": (True,),
            "scale_embedding": (False,),
            "head_bias": (True,),
            "tie_weights": (True,),
            "pooling": ("cls",),
            "pooler": ("tanh",),
            "head_activation": (activation,),
        }

    def mixer_words(self, model: Model) -> Words:
        """What this form can say of the mixer."""
        return attention_words(model)
