"""Statistics of heads, against what one works out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from headtohead.interpretability.head_statistics import head_statistics
from headtohead.interpretability.recorded_attention import AttentionMaps


def statistics(weights: Tensor, **fields) -> dict[str, list[float]]:
    maps = AttentionMaps(**{"name": "x", "kind": "self", "causal": False, **fields}, weights=weights.float())
    return head_statistics([maps])["x"]


def uniform(length: int, *, causal: bool) -> Tensor:
    allowed = torch.ones(length, length)
    allowed = allowed.tril() if causal else allowed
    return (allowed / allowed.sum(-1, keepdim=True))[None, None]


def test_a_uniform_head_has_the_largest_entropy_and_the_mean_distance_of_its_keys() -> None:
    result = statistics(uniform(4, causal=False))
    assert result["entropy"] == pytest.approx([math.log(4)])
    assert result["entropy_share"] == pytest.approx([1.0])
    # |i - j| over a 4 x 4 square: 0 four times, 1 six times, 2 four times, 3 twice.
    assert result["distance"] == pytest.approx([(6 * 1 + 4 * 2 + 2 * 3) / 16])
    assert result["first"] == pytest.approx([0.25]) and result["itself"] == pytest.approx([0.25])
    assert result["previous"] == pytest.approx([0.25])


def test_a_causal_query_with_a_single_key_does_not_count() -> None:
    result = statistics(uniform(4, causal=True), causal=True)
    assert result["entropy"] == pytest.approx([(math.log(2) + math.log(3) + math.log(4)) / 3])
    assert result["entropy_share"] == pytest.approx([1.0])
    assert result["distance"] == pytest.approx([(0.5 + 1.0 + 1.5) / 3])
    assert result["first"] == pytest.approx([(1 / 2 + 1 / 3 + 1 / 4) / 3])


@pytest.mark.parametrize("causal", [True, False])
def test_an_identity_head_attends_to_itself_alone(causal: bool) -> None:
    result = statistics(torch.eye(5)[None, None], causal=causal)
    assert result["entropy"] == [0.0] and result["distance"] == [0.0] and result["entropy_share"] == [0.0]
    assert result["itself"] == [1.0] and result["previous"] == [0.0]
    assert result["first"] == pytest.approx([0.0 if causal else 0.2])


@pytest.mark.parametrize("causal", [True, False])
def test_a_previous_token_head_is_at_distance_one(causal: bool) -> None:
    weights = torch.zeros(6, 6)
    weights[0, 0] = 1.0
    weights[torch.arange(1, 6), torch.arange(5)] = 1.0
    result = statistics(weights[None, None], causal=causal)
    assert result["previous"] == [1.0]
    assert result["distance"] == pytest.approx([1.0 if causal else 5 / 6])
    assert result["itself"] == pytest.approx([0.0 if causal else 1 / 6])


def test_each_head_has_numbers_of_its_own() -> None:
    weights = torch.cat((torch.eye(4)[None, None], uniform(4, causal=False)), dim=1)
    result = statistics(weights)
    assert result["entropy"] == pytest.approx([0.0, math.log(4)])
    assert result["itself"] == pytest.approx([1.0, 0.25])


def test_padding_counts_neither_as_query_nor_as_key() -> None:
    """A row of three tokens in a batch with one of five gives what it gives alone."""
    short, padded = uniform(3, causal=False), torch.zeros(1, 1, 5, 5)
    padded[..., :3, :3] = short
    valid = torch.tensor([[True, True, True, False, False]])
    alone, inside = statistics(short), statistics(padded, query_valid=valid, key_valid=valid)
    for name, value in alone.items():
        assert inside[name] == pytest.approx(value), name


def test_samples_count_by_their_queries() -> None:
    """Two tokens of a uniform head and four of an identity head: a third and two thirds."""
    weights = torch.zeros(2, 1, 4, 4)
    weights[0, 0, :2, :2] = 0.5
    weights[1, 0] = torch.eye(4)
    valid = torch.tensor([[True, True, False, False], [True] * 4])
    result = statistics(weights, query_valid=valid, key_valid=valid)
    assert result["entropy"] == pytest.approx([math.log(2) / 3])
    assert result["itself"] == pytest.approx([(2 * 0.5 + 4 * 1.0) / 6])


def test_in_packed_rows_the_first_token_is_that_of_the_document_and_its_query_has_no_previous() -> None:
    segments = torch.tensor([[0, 0, 1, 1, 1]])
    allowed = (segments[:, :, None] == segments[:, None, :]).tril()
    weights = torch.zeros(1, 1, 5, 5)
    weights[0, 0, [0, 1, 2, 3, 4], [0, 0, 2, 2, 2]] = 1.0
    assert (weights[0] * ~allowed == 0).all()
    result = statistics(weights, causal=True, segments=segments)
    assert result["first"] == [1.0]
    # of the queries with a choice (1, 3, 4) all have a previous token, and 4 does not look at it
    assert result["previous"] == pytest.approx([2 / 3])
    assert result["distance"] == pytest.approx([(1 + 1 + 2) / 3])


def test_cross_attention_has_no_token_of_its_own_to_attend_to() -> None:
    result = statistics(torch.full((1, 2, 3, 6), 1 / 6), kind="cross")
    assert set(result) == {"entropy", "entropy_share", "distance", "first"}
    assert result["entropy"] == pytest.approx([math.log(6)] * 2)
    assert result["first"] == pytest.approx([1 / 6] * 2)


def test_distances_of_patches_are_measured_on_the_grid_and_leave_the_class_token_out() -> None:
    """Two rows of three patches after a class token; every patch looks at the one below or above it."""
    weights = torch.zeros(1, 1, 7, 7)
    weights[..., 0, 0] = 1.0
    for index in range(6):
        weights[..., 1 + index, 1 + (index + 3) % 6] = 0.5
        weights[..., 1 + index, 0] = 0.5
    result = statistics(weights, grid=(2, 3))
    assert result["patch_distance"] == pytest.approx([1.0])
    assert result["first"] == pytest.approx([(1 + 6 * 0.5) / 7])


def test_a_diagonal_of_the_grid_has_the_length_of_a_diagonal() -> None:
    weights = torch.zeros(1, 1, 4, 4)
    weights[..., torch.arange(4), torch.tensor([3, 2, 1, 0])] = 1.0
    assert statistics(weights, grid=(2, 2))["patch_distance"] == pytest.approx([math.sqrt(2)])


def test_weights_of_implicit_attention_count_by_their_size() -> None:
    weights = torch.tensor([[2.0, -2.0], [-3.0, 1.0]])[None, None]
    result = statistics(weights)
    expected = (math.log(2) + -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))) / 2
    assert result["entropy"] == pytest.approx([expected])
    assert result["itself"] == pytest.approx([(0.5 + 0.25) / 2])


def test_where_no_query_has_a_choice_there_are_no_numbers() -> None:
    result = statistics(torch.ones(2, 3, 1, 1), causal=True)
    assert all(math.isnan(value) for values in result.values() for value in values)
    assert {len(values) for values in result.values()} == {3}
