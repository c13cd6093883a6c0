"""Every mixer that can be causal writes with its state what it writes by reading the whole row again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from contracts.choices import can_look, factory, names
from generation.test_decoding_loop import PROMPTS, again, written
from headtohead.architectures.architecture import DecodingModel
from small_models import exact_model

MIXERS = [name for name in names("mixer") if can_look(factory("mixer", name), causal=True)]
QUICK = ("softmax_attention", "sliding_window", "linear_attention", "mamba")
"""One of every kind of state; the others take minutes together."""
LOCALS = [name for name in names("local") if name != "none"]


def by_speed(mixers: list[str], quick: tuple[str, ...]) -> list[object]:
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in mixers]


def model_of(**changes: object) -> DecodingModel:
    model = exact_model("decoder_only", d_model=32, num_heads=4, **changes).eval()
    assert isinstance(model, DecodingModel)
    return model


@pytest.mark.sampled(20)
@pytest.mark.slow
@pytest.mark.parametrize("name", by_speed(MIXERS, QUICK))
def test_cached_equals_uncached_token_for_token(name: str) -> None:
    torch.manual_seed(0)
    model = model_of(mixer=factory("mixer", name))
    expected = [again(model, prompt, 5) for prompt in PROMPTS]
    assert written(model, PROMPTS, max_new_tokens=5) == expected
    assert written(model, PROMPTS[:1], max_new_tokens=5) == expected[:1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax_attention", "sliding_window"])
def test_cached_equals_uncached_with_capped_scores_and_logits(name: str) -> None:
    model = model_of(mixer=factory("mixer", name, score_cap=0.3), logit_cap=0.5)
    assert written(model, PROMPTS, max_new_tokens=5) == [again(model, prompt, 5) for prompt in PROMPTS]


@pytest.mark.slow
@pytest.mark.parametrize("name", by_speed(LOCALS, ("token_shift",)))
def test_cached_equals_uncached_whatever_precedes_the_mixer(name: str) -> None:
    model = model_of(local=factory("local", name))
    assert written(model, PROMPTS, max_new_tokens=5) == [again(model, prompt, 5) for prompt in PROMPTS]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", by_speed(MIXERS, QUICK[:1]))
def test_samples_of_one_prompt_leave_each_other_alone(name: str) -> None:
    """Rows of a state are taken several times, and each goes on by itself."""
    model = model_of(mixer=factory("mixer", name))
    how = {"temperature": 1.0, "seed": 3, "max_new_tokens": 4}
    [alone] = written(model, PROMPTS[:1], **how)
    samples = written(model, PROMPTS[:1], num_samples=3, **how)
    assert samples[0] == alone and len({*map(tuple, samples)}) > 1


class LargestTensor(TorchDispatchMode):
    """Counts the elements of the largest tensor that an operation returns."""

    num_elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        result = func(*args, **(kwargs or {}))
        for part in result if isinstance(result, list | tuple) else (result,):
            if isinstance(part, torch.Tensor):
                self.num_elements = max(self.num_elements, part.numel())
        return result


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", by_speed(MIXERS, (*QUICK, "stick_breaking")))
def test_one_token_makes_nothing_that_grows_faster_than_the_tokens_before_it(name: str) -> None:
    largest = []
    for length in (64, 128):
        model = model_of(mixer=factory("mixer", name), max_length=256)
        logits, state = model.prefill(torch.full((1, length), 5), None, room=1, bos_id=0)
        with LargestTensor() as seen, torch.inference_mode():
            model.decode_step(logits.argmax(-1)[:, None], state)
        largest.append(seen.num_elements)
    assert largest[1] <= 2.2 * largest[0]
