"""Beam search finds what looking at every text finds, and what `transformers` finds with the same weights."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from headtohead.architectures.architecture import DecodingModel
from headtohead.components.positions.rotary import Rotary
from headtohead.generation.beam_search import BeamSearchResult, search
from headtohead.generation.decoding_strategy import DecodingStrategy
from small_models import exact_model

EOS = 2
PROMPTS = [[1, 3, 0, 3], [3], [0, 1, 1, 3, 3, 0]]


def tiny(family: str = "decoder_only", **changes: Any) -> DecodingModel:
    model = exact_model(family, vocab_size=4, position=Rotary, tie_weights=False, **changes).eval()
    assert isinstance(model, DecodingModel)
    return model


def all_texts(length: int) -> list[tuple[int, ...]]:
    """Return every text of up to so many of the four tokens, ended, or as long as it may be."""
    texts = []
    for size in range(1, length + 1):
        for text in itertools.product(range(4), repeat=size):
            if EOS not in text[:-1] and (text[-1] == EOS or size == length):
                texts.append(text)
    return texts


@torch.no_grad()
def log_probabilities(model: DecodingModel, prompt: list[int]) -> dict[tuple[int, ...], float]:
    """Return the log-probability of every text of up to three tokens."""
    result: dict[tuple[int, ...], float] = {}
    for size in (1, 2, 3):
        texts = [text for text in all_texts(3) if len(text) == size]
        written, prompts = torch.tensor(texts), torch.tensor([prompt]).expand(len(texts), -1)
        if model.reads_source:
            start = torch.ones(len(texts), 1, dtype=torch.long)
            logits = model(prompts, decoder_tokens=torch.cat([start, written], 1))[:, :-1]
        else:
            logits = model(torch.cat([prompts, written], 1))[:, len(prompt) - 1 : -1]
        sums = logits.log_softmax(-1).gather(-1, written[..., None]).sum((1, 2))
        result |= dict(zip(texts, sums.tolist(), strict=True))
    return result


def result(model: DecodingModel, prompts: list[list[int]], **how: Any) -> list[list[BeamSearchResult]]:
    return search(model, prompts, DecodingStrategy(max_new_tokens=3, **how), bos_id=1, ends=[EOS])


@pytest.mark.slow
@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0, -1.0])
@pytest.mark.parametrize("family", ["decoder_only", "encoder_decoder"])
def test_with_enough_beams_the_best_of_all_texts_is_found(family: str, length_penalty: float) -> None:
    model = tiny(family)
    results = result(model, PROMPTS, beams=30, num_samples=5, length_penalty=length_penalty)
    for prompt, best in zip(PROMPTS, results, strict=True):
        sums = log_probabilities(model, prompt)
        scores = {text: value / len(text) ** length_penalty for text, value in sums.items()}
        expected = sorted(scores, key=scores.__getitem__, reverse=True)[:5]
        assert [one.tokens for one in best] == expected
        assert [one.score for one in best] == pytest.approx([scores[text] for text in expected], abs=1e-10)
        assert all(one.ended == (one.tokens[-1] == EOS) for one in best)


def test_prompts_of_a_batch_are_searched_as_each_alone() -> None:
    model = tiny()
    together = result(model, PROMPTS, beams=2, num_samples=2)
    for prompt, best in zip(PROMPTS, together, strict=True):
        [alone] = result(model, [prompt], beams=2, num_samples=2)
        assert [one.tokens for one in alone] == [one.tokens for one in best]


def test_more_beams_than_tokens_find_no_text_twice() -> None:
    [best] = result(tiny(), [[1]], beams=9, num_samples=9)
    assert len({one.tokens for one in best}) == len(best)


@pytest.mark.parametrize("beams", [2, 4])
@pytest.mark.parametrize("length_penalty", [0.5, 1.0])
def test_finds_what_transformers_finds(beams: int, length_penalty: float) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    from gpt2_reference import same_weights

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=12, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=EOS,
        initializer_range=0.6,
    )  # fmt: skip
    theirs = GPT2LMHeadModel(config).eval().double()
    ours = same_weights(theirs)
    prompts = torch.tensor([[3, 4, 5], [7, 1, 9], [11, 0, 6]])
    whole = theirs.generate(
        prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=8, num_beams=beams, do_sample=False,
        length_penalty=length_penalty, early_stopping="never", pad_token_id=EOS,
    )  # fmt: skip
    how = DecodingStrategy(max_new_tokens=8, beams=beams, length_penalty=length_penalty)
    for row, [best] in zip(
        whole[:, 3:].tolist(), search(ours, prompts.tolist(), how, bos_id=1, ends=[EOS]), strict=True
    ):
        assert row[: len(best.tokens)] == list(best.tokens) and set(row[len(best.tokens) :]) <= {EOS}
