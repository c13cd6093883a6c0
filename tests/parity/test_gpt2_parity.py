"""GPT-2 against `transformers`."""

from __future__ import annotations

import pytest
from transformers import GPT2Config, GPT2LMHeadModel

from headtohead.pretrained.gpt2 import Gpt2Family
from parity.parity import Case, check
from parity.token_rows import LENGTH, VOCABULARY, token_rows


@pytest.mark.parametrize("tied", [True, False])
def test_gpt2_gives_the_logits_and_gradients_of_its_reference(tied: bool) -> None:
    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=LENGTH + 2, n_embd=24, n_layer=2, n_head=3, tie_word_embeddings=tied,
        attn_implementation="eager", bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    theirs, ours = token_rows()
    name = "GPT-2" if tied else "GPT-2, head of its own"
    check(name, Case(Gpt2Family(), GPT2LMHeadModel, config, theirs, ours, scored=ours["valid"]))
