"""Training steps compared with those of plain torch: a GPT built as nanoGPT's is (https://github.com/karpathy/nanoGPT)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headtohead.data.batches.batch import IGNORED
from headtohead.diagnostics.peers import our_models
from headtohead.diagnostics.peers.alternation import Pair, PeerComparison
from headtohead.diagnostics.peers.our_models import HEADS, LAYERS, WIDTH, our_step, their_step, token_loss

if TYPE_CHECKING:
    from transformers import BertConfig


class PlainAttention(nn.Module):
    """Causal attention with one linear map in and one out."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.num_heads, -1).transpose(1, 2) for part in self.inputs(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed: Tensor = self.output(y.transpose(1, 2).contiguous().view(batch, length, width))
        return mixed


class PlainBlock(nn.Module):
    """Attention and a feed-forward of four times the width, each after a norm."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = PlainAttention(width, num_heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        x = x + self.attention(self.norms[0](x))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))  # type: ignore[no-any-return]


class PlainGpt(nn.Module):
    """The whole model; called with targets it returns their mean loss."""

    def __init__(self, *, width: int, num_layers: int, num_heads: int, vocab_size: int, max_length: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab_size, width), nn.Embedding(max_length, width)
        self.blocks = nn.ModuleList(PlainBlock(width, num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab_size, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Int[Tensor, "B L"], targets: Int[Tensor, "B L"]) -> Float[Tensor, ""]:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


TRANSFORMERS = "transformers"
LENGTH = 256


def comparisons() -> Iterator[PeerComparison]:
    """Yield the training steps that are compared."""
    targets = {512: (1.05, 1.02), 8192: (1.5, 1.15), 50257: (2.2, 1.45)}
    for vocab_size, by_precision in targets.items():
        for half, target in zip((True, False), by_precision, strict=True):
            work = f"GPT step {_precision(half)}, V = {vocab_size:,}"
            yield PeerComparison("gpt", work, "nanoGPT's model", target, partial(gpt, vocab_size, half=half))
    for vocab_size, target in {8192: 2.0, 30522: 3.2}.items():
        work, hidden = f"BERT masked step, V = {vocab_size:,}", partial(bert_masked, vocab_size)
        yield PeerComparison("bert", work, TRANSFORMERS, target, hidden, TRANSFORMERS)
    others = (("t5", "T5 step bf16", 1.4, t5), ("vit", "ViT step", 1.05, vit), ("bert", "BERT class step", 1.05, bert))
    for group, work, target, make in others:
        yield PeerComparison(group, work, TRANSFORMERS, target, make, TRANSFORMERS)


def _precision(half: bool) -> str:
    return "bf16" if half else "fp32"


def _tokens(vocab_size: int, batch: int, length: int) -> Tensor:
    return torch.randint(0, vocab_size, (batch, length), generator=torch.Generator().manual_seed(0))


def gpt(vocab_size: int, *, half: bool) -> Pair:
    tokens = _tokens(vocab_size, 8, LENGTH + 1)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    ours = our_models.decoder(vocab_size, LENGTH)
    theirs = PlainGpt(width=WIDTH, num_layers=LAYERS, num_heads=HEADS, vocab_size=vocab_size, max_length=LENGTH)
    return Pair(
        our_step(ours, token_loss(ours, {"tokens": inputs}, targets), half=half),
        their_step(theirs, lambda: theirs(inputs, targets), half=half),
    )


def _bert_config(vocab_size: int) -> BertConfig:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


def bert_masked(vocab_size: int) -> Pair:
    """Hide 15 % of the tokens; the peer makes the logits of all."""
    from transformers import BertForMaskedLM

    tokens = _tokens(vocab_size, 16, 128)
    hidden = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(1)) < 0.15
    targets = tokens.masked_fill(~hidden, IGNORED)
    ours = our_models.encoder(vocab_size, LENGTH, "masked_language_model")
    theirs = BertForMaskedLM(_bert_config(vocab_size)).train()
    loss = _loss_of(theirs, input_ids=tokens, labels=targets)
    return Pair(
        our_step(ours, token_loss(ours, {"tokens": tokens}, targets), half=False),
        their_step(theirs, loss, half=False),
    )


def bert() -> Pair:
    from transformers import BertForSequenceClassification

    tokens, labels = _tokens(8192, 16, 128), _tokens(2, 1, 16)[0]
    ours = our_models.encoder(8192, LENGTH, "classifier")
    theirs = BertForSequenceClassification(_bert_config(8192)).train()
    return Pair(
        our_step(ours, lambda: F.cross_entropy(ours(tokens=tokens), labels), half=False),
        their_step(theirs, _loss_of(theirs, input_ids=tokens, labels=labels), half=False),
    )


def t5() -> Pair:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=8192,
        d_model=WIDTH,
        d_kv=WIDTH // HEADS,
        d_ff=4 * WIDTH,
        num_layers=LAYERS,
        num_heads=HEADS,
        dropout_rate=0.0,
        decoder_start_token_id=0,  # type: ignore[call-arg]  # of every model's configuration, which types leave out
    )
    source, target = _tokens(8192, 16, 128), _tokens(8192, 16, 65)
    inputs, targets = target[:, :-1].contiguous(), target[:, 1:].contiguous()
    ours, theirs = our_models.encoder_decoder(8192, LENGTH), T5ForConditionalGeneration(config).train()
    loss = _loss_of(theirs, input_ids=source, decoder_input_ids=inputs, labels=targets)
    both = {"tokens": source, "decoder_tokens": inputs}
    return Pair(our_step(ours, token_loss(ours, both, targets), half=True), their_step(theirs, loss, half=True))


def vit() -> Pair:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        image_size=64,
        patch_size=8,
        num_labels=10,  # type: ignore[call-arg]  # as above
    )
    images, labels = torch.randn(16, 3, 64, 64, generator=torch.Generator().manual_seed(0)), _tokens(10, 1, 16)[0]
    ours, theirs = our_models.vision_transformer(64, 8), ViTForImageClassification(config).train()
    return Pair(
        our_step(ours, lambda: F.cross_entropy(ours(images=images), labels), half=False),
        their_step(theirs, _loss_of(theirs, pixel_values=images, labels=labels), half=False),
    )


def _loss_of(model: torch.nn.Module, **inputs: Tensor) -> Callable[[], Tensor]:
    def loss() -> Tensor:
        value: Tensor = model(**inputs).loss
        return value

    return loss
