"""Tokens per second of greedy decoding beside `transformers`' own, same weights, same tokens, in turn (A B A B).

GPT-2 in small: 4 layers, width 256, 4 heads, vocabulary 50257; prompt of 32 tokens, 128 new ones, float32.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from headtohead.architectures.decoder_only import DecoderOnly
from headtohead.components.feedforwards import DenseFeedForward
from headtohead.components.initialisations import gpt2
from headtohead.components.mixers.softmax_attention import SoftmaxAttention
from headtohead.components.norms import LayerNorm
from headtohead.components.positions.learned import Learned
from headtohead.components.residuals import Pre
from headtohead.generation.loop import stream
from headtohead.generation.strategy import Strategy
from headtohead.pretrained.gpt2 import Gpt2

WIDTH, LAYERS, HEADS, MAX_LENGTH = 256, 4, 4, 256
PROMPT, NEW = 32, 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    theirs = reference(chosen.vocabulary)
    ours = same_weights(theirs)
    print(f"{'batch':>5} {'ours tok/s':>11} {'transformers tok/s':>19} {'ratio':>6}   median of {chosen.rounds} pairs")
    for size in chosen.batches:
        prompts = torch.randint(0, chosen.vocabulary, (size, PROMPT), generator=torch.Generator().manual_seed(size))
        assert torch.equal(written_by_us(ours, prompts), written_by_them(theirs, prompts)), "the same tokens"
        pairs = [
            (seconds(written_by_us, ours, prompts), seconds(written_by_them, theirs, prompts))
            for _ in range(chosen.rounds)
        ]
        a, b = (size * NEW / statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(theirs / ours for ours, theirs in pairs)
        print(f"{size:>5} {a:>11.0f} {b:>19.0f} {ratio:>6.2f}")


def reference(vocab_size: int) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=vocab_size,
        n_positions=MAX_LENGTH,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        bos_token_id=None,
        eos_token_id=None,
    )
    return GPT2LMHeadModel(config).eval()


def same_weights(theirs: GPT2LMHeadModel) -> DecoderOnly:
    ours = DecoderOnly(
        WIDTH,
        LAYERS,
        HEADS,
        mixer=SoftmaxAttention,
        position=Learned,
        norm=LayerNorm,
        residual=Pre,
        feedforward=partial(DenseFeedForward, activation="gelu_tanh"),
        initialisation=gpt2,
        vocab_size=theirs.config.vocab_size,
        max_length=MAX_LENGTH,
    )
    weights, hub = theirs.state_dict(), theirs.config.to_dict()
    taken = {name: part for piece in Gpt2().pieces(hub) for name, part in piece.take(weights).items()}
    ours.load_state_dict({**taken, "head.weight": taken["embedding.weight"]})
    return ours.eval()


def written_by_us(model: DecoderOnly, prompts: Tensor) -> Tensor:
    how = Strategy(max_new_tokens=NEW)
    columns = stream(model, prompts.tolist(), how, bos_id=0, has_ended=lambda *_: False)
    return torch.tensor([[token for _, token in column] for column in columns]).T


def written_by_them(model: GPT2LMHeadModel, prompts: Tensor) -> Tensor:
    mask = torch.ones_like(prompts)
    with torch.inference_mode():
        whole = model.generate(
            prompts, attention_mask=mask, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, pad_token_id=0
        )
    return whole[:, PROMPT:]


def seconds(write: Callable[..., Tensor], model: torch.nn.Module, prompts: Tensor) -> float:
    started = time.perf_counter()
    write(model, prompts)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
