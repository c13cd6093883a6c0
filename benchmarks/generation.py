"""Tokens per second of greedy decoding beside `transformers`' own, same weights, same tokens, in turn (A B A B).

GPT-2 in small: 4 layers, width 256, 4 heads, a vocabulary of 512 or of 50257; prompt of 32 tokens, 128 new ones,
float32, one thread. Rounds alternate; the time of the processor is told beside that of the clock, since other programs
on the machine lengthen the second alone. Target: 1.8 times the tokens per second of `transformers`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from headtohead.architectures.token_stack import DecoderOnly, TokenFields
from headtohead.components.feedforwards import DenseFeedForward
from headtohead.components.initialisations import gpt2
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.components.norms import LayerNorm
from headtohead.components.positions.absolute import Learned
from headtohead.components.residuals import PreNorm
from headtohead.components.stack_parts import StackParts, StackSize
from headtohead.generation.decoding_loop import stream
from headtohead.generation.decoding_strategy import DecodingStrategy
from headtohead.pretrained.gpt2 import Gpt2Family

WIDTH, LAYERS, HEADS, MAX_LENGTH = 256, 4, 4, 256
PROMPT, NEW = 32, 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--vocabularies", type=int, nargs="+", default=[512, 50257])
    parser.add_argument("--batches", type=int, nargs="+", default=[1])
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    print(f"medians of {chosen.rounds} rounds, tokens per second; {chosen.threads} thread(s) of {os.cpu_count()}")
    print(f"{'vocabulary':>10} {'batch':>5} {'clock':>9} {'ours':>6} {'theirs':>6} {'ratio':>6} {'load':>5}")
    for vocab_size in chosen.vocabularies:
        theirs = reference(vocab_size)
        ours = same_weights(theirs)
        for size in chosen.batches:
            compare(ours, theirs, size, chosen.rounds)


def compare(ours: DecoderOnly, theirs: GPT2LMHeadModel, size: int, rounds: int) -> None:
    vocab_size = theirs.config.vocab_size
    prompts = torch.randint(0, vocab_size, (size, PROMPT), generator=torch.Generator().manual_seed(size))
    same = torch.equal(written_by_us(ours, prompts), written_by_them(theirs, prompts))
    assert same, "greedily, both write the same tokens"
    pairs = [(spent(written_by_us, ours, prompts), spent(written_by_them, theirs, prompts)) for _ in range(rounds)]
    for position, clock in enumerate(("processor", "wall")):
        times = [(a[position], b[position]) for a, b in pairs]
        a, b = (size * NEW / statistics.median(side) for side in zip(*times, strict=True))
        ratio = statistics.median(theirs / ours for ours, theirs in times)
        load = os.getloadavg()[0]
        print(f"{vocab_size:>10} {size:>5} {clock:>9} {a:>6.0f} {b:>6.0f} {ratio:>6.2f} {load:>5.1f}", flush=True)


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
    model = GPT2LMHeadModel(config)
    model.eval()
    return model


def same_weights(theirs: GPT2LMHeadModel) -> DecoderOnly:
    ours = DecoderOnly(
        StackSize(WIDTH, LAYERS, HEADS),
        StackParts(
            mixer=SoftmaxAttention,
            position=Learned,
            norm=LayerNorm,
            residual=PreNorm,
            feedforward=partial(DenseFeedForward, activation="gelu_tanh"),
        ),
        tokens=TokenFields(vocab_size=theirs.config.vocab_size, max_length=MAX_LENGTH),
        initialisation=gpt2,
    )
    weights, hub = theirs.state_dict(), theirs.config.to_dict()
    taken = {name: part for piece in Gpt2Family().pieces(hub) for name, part in piece.take(weights).items()}
    ours.load_state_dict({**taken, "head.weight": taken["embedding.weight"]})
    return ours.eval()


def written_by_us(model: DecoderOnly, prompts: Tensor) -> Tensor:
    how = DecodingStrategy(max_new_tokens=NEW)
    columns = stream(model, prompts.tolist(), how, bos_id=0, has_ended=lambda *_: False)
    return torch.tensor([[token for _, token in column] for column in columns]).T


def written_by_them(model: GPT2LMHeadModel, prompts: Tensor) -> Tensor:
    mask = torch.ones_like(prompts)
    with torch.inference_mode():
        whole = cast("Any", model).generate(  # in some versions its own mixin does not know the model
            prompts, attention_mask=mask, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, pad_token_id=0
        )
    assert isinstance(whole, Tensor)
    return whole[:, PROMPT:]


def spent(write: Callable[..., Tensor], model: torch.nn.Module, prompts: Tensor) -> tuple[float, float]:
    """Seconds of the processor, and of the clock on the wall."""
    started = time.process_time(), time.perf_counter()
    write(model, prompts)
    return time.process_time() - started[0], time.perf_counter() - started[1]


if __name__ == "__main__":
    main()
