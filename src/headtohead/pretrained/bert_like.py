"""What BERT (Devlin et al. 2019, https://arxiv.org/abs/1810.04805) and its descendants have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from headtohead.architectures.heads import HeadName
from headtohead.pretrained.family import Accepted, Family, Hub
from headtohead.pretrained.names import flag, multiple, our_activation
from headtohead.pretrained.pieces import OffsetRows, Piece, Renamed

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


def renamed(ours: str, theirs: str) -> Iterator[Piece]:
    """The weight and the bias of a linear map or a norm."""
    for kind in ("weight", "bias"):
        yield Renamed(f"{ours}.{kind}", f"{theirs}.{kind}")


class BertLike(Family):
    """An encoder with norms after each sum and after the embeddings, learned places, and sentences of two kinds."""

    buffers = (r".*embeddings\.(position_ids|token_type_ids)",)
    defaults: ClassVar[Hub] = {
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "layer_norm_eps": 1e-12,
        "type_vocab_size": 2,
        "tie_word_embeddings": True,
    }
    accepts: ClassVar[Accepted] = {
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
            f"model.tie_weights={flag(hub['tie_word_embeddings'])}",
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

    def masked_head(self, hub: Hub, transform: tuple[str, str], decoder: str, bias: str) -> Iterator[Piece]:
        """The dense layer and norm before the vocabulary, its bias, and its matrix where that is not the embedding."""
        dense, norm = transform
        yield from renamed("head.dense", dense)
        yield from renamed("head.norm", norm)
        yield Renamed("head.bias", bias)
        if not hub["tie_word_embeddings"]:
            yield Renamed("head.weight", decoder)
