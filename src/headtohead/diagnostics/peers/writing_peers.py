"""Greedy decoding beside that of `transformers`, and tokenizing beside the `tokenizers` library alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor

from headtohead.data.tokenizers.tokenizer_training import train_tokenizer
from headtohead.diagnostics.peers import our_models
from headtohead.diagnostics.peers.alternation import Pair, PeerComparison
from headtohead.diagnostics.peers.our_models import HEADS, LAYERS, WIDTH
from headtohead.generation.decoding_loop import stream
from headtohead.generation.decoding_strategy import DecodingStrategy

TRANSFORMERS = "transformers"


def comparisons() -> Iterator[PeerComparison]:
    """Yield the decoding and the tokenizing that are compared."""
    targets = {"rotary": {512: 1.6, 8192: 1.7, 50257: 1.9}, "learned": {512: 1.95, 8192: 1.95, 50257: 2.0}}
    for position, by_size in targets.items():
        for vocab_size, target in by_size.items():
            work = f"generate, B = 1, 32 + 128, V = {vocab_size:,}, {position}"
            make = partial(decoding, vocab_size, position, 1, 32, 128)
            yield PeerComparison("decoding", work, TRANSFORMERS, target, make, TRANSFORMERS)
    for batch, prompt, new, target in ((8, 32, 128, 1.5), (1, 512, 256, 1.6)):
        work, make = f"generate, B = {batch}, {prompt} + {new}", partial(decoding, 512, "rotary", batch, prompt, new)
        yield PeerComparison("decoding", work, TRANSFORMERS, target, make, TRANSFORMERS)
    yield PeerComparison("tokenizing", "tokenizing (BPE 8k)", "tokenizers", 0.95, tokenizing, "tokenizers")


def decoding(vocab_size: int, position: str, batch: int, prompt: int, new: int) -> Pair:
    """Write so many new tokens after a prompt, in models of equal size."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=vocab_size,
        n_positions=prompt + new,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        bos_token_id=None,
        eos_token_id=None,
    )
    theirs = cast("Any", GPT2LMHeadModel(config).eval())  # in some versions its own mixin does not know the model
    ours = our_models.decoder(vocab_size, prompt + new, position).eval()
    prompts = torch.randint(0, vocab_size, (batch, prompt), generator=torch.Generator().manual_seed(0))
    mask, rows = torch.ones_like(prompts), prompts.tolist()

    def write_ours() -> None:
        for _ in stream(ours, rows, DecodingStrategy(max_new_tokens=new), bos_id=0, has_ended=lambda *_: False):
            pass

    def write_theirs() -> Tensor:
        length = {"max_new_tokens": new, "min_new_tokens": new}
        with torch.inference_mode():
            written: Tensor = theirs.generate(prompts, attention_mask=mask, do_sample=False, pad_token_id=0, **length)
        return written

    return Pair(write_ours, write_theirs)


def tokenizing() -> Pair:
    """Turn a thousand texts into numbers; the library's side flattens them into one list."""
    from tokenizers import Tokenizer as Library

    generator = torch.Generator().manual_seed(0)
    words = [
        "".join(chr(97 + i) for i in torch.randint(0, 26, (7,), generator=generator).tolist()) for _ in range(9000)
    ]
    chosen = torch.randint(0, len(words), (1000, 200), generator=generator)
    texts = [" ".join(words[i] for i in row) for row in chosen.tolist()]
    ours = train_tokenizer("bpe", texts, 8192)
    library = Library.from_str(ours.merges)

    def theirs() -> list[int]:
        return list(chain.from_iterable(one.ids for one in library.encode_batch_fast(texts, add_special_tokens=False)))

    return Pair(lambda: ours.encode(texts), theirs)
