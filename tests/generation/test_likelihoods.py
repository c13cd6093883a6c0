"""Likelihoods of continuations against one plain forward pass for each, token by token."""

from __future__ import annotations

import pytest
import torch

from contracts.choices import can_look, factory, names
from generation.test_every_mixer import QUICK, by_speed, model_of
from headtohead.architectures.architecture import Architecture
from headtohead.generation.likelihoods import TooLongToScoreError, choice_likelihoods, likelihoods
from small_models import exact_model

MIXERS = [name for name in names("mixer") if can_look(factory("mixer", name), causal=True)]
SHARED = [1, 7, 8, 9, 12]
CONTEXTS = [[5, 6, 7], [20, 3], [9, 9, 9, 4], [11, 13], [5, 6, 8]]
CHOICES = [[4], [14, 2, 6], [14, 3], [27, 28, 1, 10]]


def by_hand(model: Architecture, context: list[int], continuation: list[int]) -> tuple[float, bool]:
    """Compute the likelihood with one forward pass for each token."""
    read, total, greedy = list(context), 0.0, True
    for token in continuation:
        with torch.no_grad():
            logits = model(tokens=torch.tensor([read]))[0, -1]
        total += float(logits[token] - logits.logsumexp(0))
        greedy &= int(logits.argmax()) == token
        read.append(token)
    return total, greedy


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax_attention", "sliding_window"])
def test_choices_are_scored_by_capped_scores_and_logits(name: str) -> None:
    model = model_of(mixer=factory("mixer", name, score_cap=0.3), logit_cap=0.5)
    plain = model_of(mixer=factory("mixer", name))
    expected = [[by_hand(model, SHARED + context, choice)[0] for choice in CHOICES] for context in CONTEXTS]
    result, other = (choice_likelihoods(one, CONTEXTS, CHOICES, shared=SHARED, batch_size=2) for one in (model, plain))
    assert torch.allclose(result, torch.tensor(expected, dtype=torch.float64), atol=1e-8)
    assert (result - other).abs().max() > 0.1


@pytest.mark.slow
@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", by_speed(MIXERS, QUICK))
@pytest.mark.parametrize("shared", [[], SHARED], ids=["nothing shared", "a shared beginning"])
def test_choices_are_scored_as_one_forward_pass_each(name: str, shared: list[int]) -> None:
    model = model_of(mixer=factory("mixer", name))
    expected = [[by_hand(model, shared + context, choice)[0] for choice in CHOICES] for context in CONTEXTS]
    result = choice_likelihoods(model, CONTEXTS, CHOICES, shared=shared, batch_size=2)
    assert torch.allclose(result, torch.tensor(expected, dtype=torch.float64), atol=1e-8)


@pytest.mark.slow
def test_rows_of_any_length_are_scored_as_one_forward_pass_each() -> None:
    model = model_of()
    rows = [(context, choice) for context in CONTEXTS for choice in CHOICES]
    result = likelihoods(model, rows, batch_size=3)
    assert [one.log_likelihood for one in result] == pytest.approx([by_hand(model, *row)[0] for row in rows])


def test_a_greedy_continuation_is_distinguished_from_one_that_differs_in_its_last_token() -> None:
    model = model_of()
    written: list[int] = []
    for _ in range(3):
        with torch.no_grad():
            written.append(int(model(tokens=torch.tensor([[5, 6, *written]]))[0, -1].argmax()))
    other = [*written[:-1], (written[-1] + 1) % 29]
    assert [one.is_greedy for one in likelihoods(model, [([5, 6], written), ([5, 6], other)])] == [True, False]


def test_what_is_longer_than_the_table_of_positions_is_refused() -> None:
    model = exact_model("decoder_only", max_length=8, position=factory("position", "learned")).eval()
    assert choice_likelihoods(model, [[3, 4, 5]], [[6, 7]], shared=[1, 2, 3, 4]).shape == (1, 2 - 1)
    with pytest.raises(TooLongToScoreError, match="show fewer examples"):
        choice_likelihoods(model, [[3, 4, 5]], [[6, 7]], shared=[1, 2, 3, 4, 5])
    with pytest.raises(TooLongToScoreError, match="positions for 8"):
        likelihoods(model, [(list(range(1, 9)), [6, 7])])
