"""Writing token by token: what is cached changes nothing, prompts of a batch leave each other alone, seeds repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from headtohead.architectures.architecture import DecodingModel
from headtohead.components.adaptive_norm import AdaptiveNorm
from headtohead.components.positions.absolute import Learned, NoPosition
from headtohead.components.positions.relative import Alibi, T5Bias
from headtohead.components.positions.rotary import Rotary
from headtohead.generation.decoding_loop import stream
from headtohead.generation.decoding_strategy import DecodingStrategy
from small_models import exact_model

PROMPTS = [[3, 14, 15, 9, 2], [6], [5, 3, 5, 8, 9, 7, 9]]


def written(
    model: DecodingModel, prompts: Sequence[Sequence[int]], ends: Sequence[int] = (), **how: Any
) -> list[list[int]]:
    strategy = DecodingStrategy(**{"max_new_tokens": 9, **how})
    rows: list[list[int]] = [[] for _ in range(len(prompts) * strategy.num_samples)]
    for column in stream(model, prompts, strategy, bos_id=1, has_ended=lambda _, token: token in ends):
        for row, token in column:
            rows[row].append(token)
    return rows


def again(model: DecodingModel, prompt: Sequence[int], num_tokens: int = 9) -> list[int]:
    """Decode greedily, reading the whole row again for every token."""
    row = [1] if model.reads_source else list(prompt)
    start = len(row)
    for _ in range(num_tokens):
        target = {"decoder_tokens": torch.tensor([row])} if model.reads_source else {}
        tokens = torch.tensor([list(prompt) if model.reads_source else row])
        with torch.no_grad():
            row.append(int(model(tokens, **target)[0, -1].argmax()))
    return row[start:]


def model_of(family: str, **changes: Any) -> DecodingModel:
    model = exact_model(family, **changes).eval()
    assert isinstance(model, DecodingModel)
    return model


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize("position", [NoPosition, Learned, Rotary, Alibi, T5Bias])
@pytest.mark.parametrize("family", ["decoder_only", "encoder_decoder"])
def test_a_batch_of_unequal_prompts_is_written_as_each_alone_and_without_a_cache(family: str, position: type) -> None:
    model = model_of(family, position=position)
    expected = [again(model, prompt) for prompt in PROMPTS]
    assert [written(model, [prompt])[0] for prompt in PROMPTS] == expected
    assert written(model, PROMPTS) == expected


@pytest.mark.slow
def test_a_norm_that_sums_up_the_past_does_not_see_padding() -> None:
    model = model_of("decoder_only", norm=AdaptiveNorm, position=Rotary)
    assert written(model, PROMPTS) == [again(model, prompt) for prompt in PROMPTS]


def test_a_row_ends_with_its_end_token_while_others_go_on() -> None:
    model = model_of("decoder_only", position=Rotary)
    free = written(model, PROMPTS)
    end = free[0][2]
    for row, whole in zip(written(model, PROMPTS, ends=[end]), free, strict=True):
        assert row == (whole[: whole.index(end) + 1] if end in whole else whole)


def test_nothing_is_computed_after_the_last_row_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("decoder_only")
    decode_step = Mock(side_effect=model.decode_step)
    monkeypatch.setattr(model, "decode_step", decode_step)
    first = written(model, [PROMPTS[0]])[0][0]
    decode_step.reset_mock()
    assert written(model, [PROMPTS[0]], ends=[first]) == [[first]] and not decode_step.called


DRAWS: dict[str, Any] = {"temperature": 0.9, "top_p": 0.95, "seed": 4}


@pytest.mark.slow
def test_a_seed_repeats_a_text_and_another_gives_another() -> None:
    model = model_of("decoder_only", position=Rotary)
    first = written(model, PROMPTS, **DRAWS)
    assert written(model, PROMPTS, **DRAWS) == first
    assert written(model, PROMPTS, **{**DRAWS, "seed": 5}) != first


@pytest.mark.slow
def test_a_drawn_text_depends_on_no_other_prompt_and_no_further_sample() -> None:
    model = model_of("decoder_only", position=Rotary)
    alone = [written(model, [prompt], **DRAWS)[0] for prompt in PROMPTS]
    assert written(model, PROMPTS, **DRAWS) == alone
    samples = written(model, PROMPTS, **DRAWS, num_samples=3)
    assert samples[::3] == alone and samples[0] != samples[1] != samples[2]


@pytest.mark.slow
def test_no_temperature_and_one_likeliest_token_are_greedy() -> None:
    model = model_of("decoder_only", position=Rotary)
    greedy = written(model, PROMPTS)
    assert written(model, PROMPTS, temperature=0.0) == greedy
    assert written(model, PROMPTS, top_k=1, seed=3) == greedy


def test_a_large_repetition_penalty_writes_no_token_twice_nor_one_of_the_prompt() -> None:
    model = model_of("decoder_only", position=Rotary)
    for prompt, row in zip(PROMPTS, written(model, PROMPTS, repetition_penalty=1e9), strict=True):
        assert len({*prompt, *row}) == len(set(prompt)) + len(row)


def test_weights_cast_to_bfloat16_once_write_in_bfloat16() -> None:
    model = model_of("decoder_only", position=Rotary).to(torch.bfloat16)
    state = model.prefill(torch.tensor([PROMPTS[0]]), None, room=4, bos_id=1)[1]
    assert {tensor.dtype for tensor in state.tensors() if tensor.is_floating_point()} == {torch.bfloat16}
    assert len(written(model, PROMPTS)[0]) == 9


def test_a_prompt_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="a prompt has no tokens"):
        written(model_of("decoder_only"), [[1], []])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"temperature": -1.0}, "temperature=-1.0 must be at least 0"),
        ({"top_p": 0.0}, "top_p=0.0 must be above 0 and at most 1"),
        ({"temperature": float("inf")}, "temperature=inf must be at least 0"),
        ({"seed": -1}, "seed=-1 must be at least 0"),
        ({"top_k": 0}, "top_k=0 must be at least 1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty=0.0 must be above 0"),
        ({"beams": 2, "top_k": 5}, "leave either out"),
        ({"num_samples": 2}, "would be the same text"),
        ({"beams": 2, "num_samples": 3}, "beams=2 cannot find num_samples=3"),
        ({"length_penalty": 2.0}, "length_penalty=2.0 is for the scores of a beam search: give beams"),
        ({"length_penalty": 2.0, "temperature": 1.0}, "length_penalty=2.0 is for the scores of a beam search"),
        ({"temperature": 0.0, "top_k": 5}, "give a temperature above 0, or leave either out"),
        ({"temperature": 0.0, "top_p": 0.5}, "give a temperature above 0, or leave either out"),
        ({"seed": 3}, "seed=3 is for draws, and nothing is drawn here"),
        ({"seed": 3, "beams": 2}, "seed=3 is for draws, and nothing is drawn here"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        DecodingStrategy(**settings)
