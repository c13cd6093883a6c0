"""Small published checkpoints, written as `transformers` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

END = "<|endoftext|>"
LINES = [
    f"the {colour} {thing} is {size} than the {other}.\n"
    for colour in ("red", "blue", "green")
    for thing, other in (("cat", "dog"), ("house", "tree"), ("sea", "sky"))
    for size in ("smaller", "older")
]
TEXT = "".join(LINES * 12)


def write_text(folder: Path) -> Path:
    path = folder / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def write_tokenizer(folder: Path) -> int:
    """Write a byte-level BPE with GPT-2's one special token, and return the size of its vocabulary."""
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    library.train_from_iterator(LINES, trainer=trainer)
    library.add_special_tokens([END])
    library.save(str(folder / "tokenizer.json"))
    named = dict.fromkeys(("bos_token", "eos_token", "unk_token"), END)
    (folder / "tokenizer_config.json").write_text(json.dumps(named), encoding="utf-8")
    return int(library.get_vocab_size())


def write_gpt2(folder: Path, **changed: Any) -> nn.Module:
    """Write a GPT-2 with random weights, and its tokenizer beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    end = write_tokenizer(folder) - 1
    config = GPT2Config(
        vocab_size=end + 1, n_positions=96, n_embd=16, n_layer=2, n_head=2, bos_token_id=end, eos_token_id=end,
        attn_implementation="eager", **changed,
    )  # fmt: skip
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config).eval()
    model.save_pretrained(folder)
    return model
