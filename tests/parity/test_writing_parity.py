"""Decoding token by token gives what `transformers` writes with the same weights: greedily, with penalties, by a
search, from prompts of unequal length, until an end token or the last one allowed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    Qwen3Config,
    Qwen3ForCausalLM,
    RepetitionPenaltyLogitsProcessor,
    T5Config,
    T5ForConditionalGeneration,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from headtohead.architectures.architecture import DecodingModel
from headtohead.generation import decoding_loop
from headtohead.generation.beam_search import search
from headtohead.generation.decoding_loop import stream
from headtohead.generation.decoding_strategy import DecodingStrategy
from headtohead.pretrained.bart import BartFamily
from headtohead.pretrained.llama import Qwen3Family
from headtohead.pretrained.t5 import T5Family
from parity.parity import Case, both, exactly, redraw

PROMPTS = [[5, 9, 3, 7, 11], [4], [8, 3, 8, 10, 6, 5, 4, 9]]
VOCABULARY, PAD, EOS, NEW = 13, 0, 2, 9
SEQ2SEQ = ("task=seq2seq", "data=reverse")
IDS: dict[str, Any] = {"vocab_size": VOCABULARY, "pad_token_id": PAD, "eos_token_id": EOS, "bos_token_id": 1}
DRAWN = {"qwen3": (5, 2.0, 1.0), "bart": (5, 4.0, 2.0), "t5": (10, 2.0, 1.0)}
"""The seed of the weights, and by how much matrices and gains are wider than drawn: so texts differ from prompt to
prompt, and some of them end."""
STARTS = {"qwen3": 1, "bart": EOS, "t5": PAD}
"""The token that a decoder reads first, as published: BART begins with the token that ends."""


def cases() -> dict[str, Case]:
    own = {"attn_implementation": "eager"}
    qwen = Qwen3Config(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        intermediate_size=40, max_position_embeddings=32, tie_word_embeddings=False, **IDS, **own,
    )  # fmt: skip
    bart = BartConfig(
        d_model=24, encoder_layers=1, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=3,
        encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=32, decoder_start_token_id=STARTS["bart"],
        forced_eos_token_id=None, **IDS, **own,
    )  # fmt: skip
    t5 = T5Config(
        d_model=24, d_kv=8, d_ff=40, num_layers=2, num_heads=3, relative_attention_num_buckets=8,
        relative_attention_max_distance=9, decoder_start_token_id=STARTS["t5"], **IDS, **own,
    )  # fmt: skip
    constants = ("final_logits_bias",)
    return {
        "qwen3": Case(Qwen3Family(), Qwen3ForCausalLM, qwen, {}, {}),
        "bart": Case(BartFamily(), BartForConditionalGeneration, bart, {}, {}, overrides=SEQ2SEQ, constants=constants),
        "t5": Case(T5Family(), T5ForConditionalGeneration, t5, {}, {}, overrides=SEQ2SEQ),
    }


@cache
def pair(name: str) -> tuple[nn.Module, DecodingModel]:
    case, (seed, *factors) = cases()[name], DRAWN[name]
    theirs, ours, pieces = both(case, torch.float64)
    assert isinstance(ours, DecodingModel)
    redraw(theirs, seed)
    with torch.no_grad():
        for path, parameter in theirs.named_parameters():
            parameter.mul_(factors[0] if parameter.ndim > 1 else 0.2 if path.endswith("bias") else factors[1])
    weights = theirs.state_dict()
    taken = {name: tensor for piece in pieces for name, tensor in piece.take(weights).items()}
    ours.load_state_dict(taken, strict=False)
    return theirs, ours


def padded(name: str) -> dict[str, Tensor]:
    """Prompts as the reference takes them: what goes on is padded on the left."""
    longest = max(map(len, PROMPTS))
    rows, masks = [], []
    for prompt in PROMPTS:
        padding, saved = [PAD] * (longest - len(prompt)), [1] * len(prompt)
        after = name != "qwen3"
        rows.append([*prompt, *padding] if after else [*padding, *prompt])
        masks.append([*saved, *padding] if after else [*padding, *saved])
    return {"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(masks)}


def theirs_write(name: str, **how: Any) -> list[list[int]]:
    """Their texts up to the end token, without what they go on with."""
    model, provided = pair(name)[0], padded(name)
    settings = {"do_sample": False, "early_stopping": "never" if how.get("num_beams", 1) > 1 else False, **how}
    with exactly(torch.float64):
        whole = model.generate(
            **provided, max_new_tokens=NEW, eos_token_id=EOS, pad_token_id=PAD, decoder_start_token_id=STARTS[name],
            forced_eos_token_id=None, forced_bos_token_id=None, **settings,
        )  # fmt: skip
    before = provided["input_ids"].shape[1] if name == "qwen3" else 1
    return [until_end(row) for row in whole[:, before:].tolist()]


def until_end(row: Sequence[int]) -> list[int]:
    return list(row[: row.index(EOS) + 1] if EOS in row else row)


def ours_write(name: str, prompts: Sequence[Sequence[int]] = PROMPTS, **how: Any) -> list[list[int]]:
    model, strategy = pair(name)[1], DecodingStrategy(max_new_tokens=NEW, **how)
    if strategy.beams > 1:
        result = search(model, prompts, strategy, bos_id=STARTS[name], ends=[EOS])
        return [list(best[0].tokens) for best in result]
    texts: list[list[int]] = [[] for _ in prompts]
    for column in stream(model, prompts, strategy, bos_id=STARTS[name], has_ended=lambda _, token: token == EOS):
        for row, token in column:
            texts[row].append(token)
    return texts


@pytest.mark.parametrize("penalty", [1.0, 1.3, 0.8, 6.0])
@pytest.mark.parametrize("name", STARTS)
def test_the_likeliest_tokens_are_those_of_the_reference_with_any_repetition_penalty(name: str, penalty: float) -> None:
    assert ours_write(name, repetition_penalty=penalty) == theirs_write(name, repetition_penalty=penalty)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bart", "t5"])
def test_a_summary_may_take_every_word_of_its_source(name: str) -> None:
    """No token is penalised before the first is written: it is the likeliest, wherever it occurs."""
    sources = [[token, *prompt] for token in range(3, VOCABULARY) for prompt in PROMPTS]
    first = [text[0] for text in ours_write(name, sources)]
    punished = [text[0] for text in ours_write(name, sources, repetition_penalty=6.0)]
    saved = [(one, other) for one, other in zip(first, punished, strict=True) if one != STARTS[name]]
    assert saved and all(one == other for one, other in saved)
    assert any(token in source for token, source in zip(first, sources, strict=True)), "else nothing is shown"


@pytest.mark.parametrize("length_penalty", [-1.0, 0.5, 2.0])
@pytest.mark.parametrize("beams", [2, 4])
@pytest.mark.parametrize("name", STARTS)
def test_a_search_finds_what_the_reference_finds(name: str, beams: int, length_penalty: float) -> None:
    result = theirs_write(name, num_beams=beams, length_penalty=length_penalty)
    assert ours_write(name, beams=beams, length_penalty=length_penalty) == result


@pytest.mark.slow
def test_some_texts_end_and_some_do_not() -> None:
    """The cases above tell an end from the last token allowed."""
    texts = [text for name in STARTS for beams in (1, 4) for text in ours_write(name, beams=beams)]
    ended = [text[-1] == EOS for text in texts]
    assert any(ended) and not all(ended)


@pytest.mark.parametrize("how", [{"temperature": 0.7, "top_k": 4}, {"top_p": 0.6}, {"temperature": 1.6, "top_p": 0.9}])
@pytest.mark.parametrize("penalty", [1.0, 1.5])
def test_draws_are_made_from_the_shares_of_the_reference(
    how: dict[str, Any], penalty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = 3 * torch.randn(3, VOCABULARY, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    read = [[5, 9, 3, 7], [4, 4, 4, 4], [8, 3, 8, 10]]
    drawn = Mock(side_effect=lambda logits, _: logits.argmax(-1))
    monkeypatch.setattr(decoding_loop, "draw", drawn)
    strategy = DecodingStrategy(repetition_penalty=penalty, **how)
    decoding_loop.TokenSampler(strategy, PROMPTS, read, vocab_size=VOCABULARY, device=logits.device)(logits)
    warpers = [RepetitionPenaltyLogitsProcessor(penalty), TemperatureLogitsWarper(how.get("temperature", 1.0))]
    warpers += [TopKLogitsWarper(how["top_k"])] if "top_k" in how else []
    warpers += [TopPLogitsWarper(how["top_p"])] if "top_p" in how else []
    expected = logits
    for warper in warpers:
        expected = warper(torch.tensor(read), expected)
    torch.testing.assert_close(drawn.call_args.args[0].softmax(-1), expected.softmax(-1))
