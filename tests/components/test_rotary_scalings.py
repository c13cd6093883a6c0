"""Rotary scalings against their papers' formulas, and against the functions of `transformers` where it is installed."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from contracts.choices import factory
from headtohead.components.positions.rotary import Rotary
from headtohead.components.positions.scaled_rotary import RotaryLlama3, RotaryYarn, TrainedTurns

SCALINGS = ("rotary_linear", "rotary_ntk", "rotary_yarn", "rotary_llama3")
CPU, EXACT = torch.device("cpu"), torch.float64
OPTIONS = [
    {"factor": 8.0},
    {"factor": 4.0, "base": 500000.0},
    {"factor": 2.5, "base": 100.0},
    {"factor": 16.0, "fraction": 0.5},
    {"factor": 1.0},
]
UNBROKEN = {"factor": 4.0, "base": 3000.0, "truncate": False}
"""YaRN whose borders lie between pairs."""
CASES = [*((name, options) for name in SCALINGS for options in OPTIONS), ("rotary_yarn", UNBROKEN)]


def made(name: str, *, width: int = 64, max_length: int | None = 512, **options: Any) -> Rotary:
    position = factory("position", name, **options)(width, num_heads=1, max_length=max_length, causal=True)
    assert isinstance(position, Rotary)
    return position


def by_pair(name: str, *, width: int, base: float, factor: float, trained: int, truncate: bool = True) -> list[float]:
    """Compute the frequencies pair by pair, in plain arithmetic."""
    formula = FORMULAS[name] if truncate else unbroken_yarn
    return [formula(pair, width, base, factor, trained) for pair in range(width // 2)]


def linear(pair: int, width: int, base: float, factor: float, trained: int) -> float:
    return base ** (-2 * pair / width) / factor


def ntk(pair: int, width: int, base: float, factor: float, trained: int) -> float:
    return (base * factor ** (width / (width - 2))) ** (-2 * pair / width)


def yarn(pair: int, width: int, base: float, factor: float, trained: int) -> float:
    def pair_of(turns: float) -> float:
        return width * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(pair_of(32)), 0), min(math.ceil(pair_of(1)), width - 1)
    return blended(pair, width, base, factor, low, high)


def unbroken_yarn(pair: int, width: int, base: float, factor: float, trained: int) -> float:
    low, high = (width * math.log(trained / turns / math.tau) / (2 * math.log(base)) for turns in (32, 1))
    assert low > 0 and high < width - 1 and low % 1 and high % 1
    return blended(pair, width, base, factor, low, high)


def blended(pair: int, width: int, base: float, factor: float, low: float, high: float) -> float:
    ramp = min(max((pair - low) / (high - low), 0), 1)
    saved = base ** (-2 * pair / width)
    return (1 - ramp) * saved + ramp * saved / factor


def llama3(pair: int, width: int, base: float, factor: float, trained: int) -> float:
    saved = base ** (-2 * pair / width)
    wavelength = 2 * math.pi / saved
    if wavelength < trained / 4:
        return saved
    if wavelength > trained / 1:
        return saved / factor
    smooth = (trained / wavelength - 1) / (4 - 1)
    return (1 - smooth) * saved / factor + smooth * saved


FORMULAS = {f"rotary_{formula.__name__}": formula for formula in (linear, ntk, yarn, llama3)}


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_frequencies_are_the_papers(name: str, options: dict[str, Any]) -> None:
    provided = {"base": 10000.0, "fraction": 1.0, **options}
    result = made(name, **options).frequencies(CPU, EXACT)
    width = int(64 * provided.pop("fraction"))
    expected = by_pair(name, width=width, trained=512, **provided)
    torch.testing.assert_close(result, torch.tensor(expected, dtype=EXACT), rtol=1e-12, atol=0)


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_frequencies_and_magnitude_are_those_of_transformers(name: str, options: dict[str, Any]) -> None:
    ours, provided = made(name, **options), {"base": 10000.0, "fraction": 1.0, **options}
    theirs, magnitude = by_transformers(name, provided)
    torch.testing.assert_close(ours.frequencies(CPU, torch.float32), theirs, rtol=2e-6, atol=0)
    assert ours.magnitude == pytest.approx(magnitude)


def by_transformers(name: str, provided: dict[str, Any]) -> tuple[torch.Tensor, float]:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {
        "rope_theta": provided["base"],
        "partial_rotary_factor": provided["fraction"],
        # Their only NTK form is dynamic; with a factor of 1 it grows by how much longer the sequence is.
        "factor": 1.0 if name == "rotary_ntk" else provided["factor"],
        "original_max_position_embeddings": 512,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "truncate": provided.get("truncate", True),
    }
    config = SimpleNamespace(
        rope_parameters=parameters,
        standardize_rope_params=lambda: None,
        hidden_size=64,
        num_attention_heads=1,
        head_dim=64,
        max_position_embeddings=512,
    )
    kind = {"rotary_ntk": "dynamic"}.get(name, name.removeprefix("rotary_"))
    longest = int(512 * provided["factor"]) if name == "rotary_ntk" else None
    return ROPE_INIT_FUNCTIONS[kind](config, CPU, seq_len=longest)


@pytest.mark.parametrize("name", SCALINGS)
def test_a_factor_of_one_changes_nothing(name: str) -> None:
    indices = torch.arange(20)[None]
    plain = made("rotary").rotation(indices, EXACT)
    torch.testing.assert_close(made(name, factor=1.0).rotation(indices, EXACT), plain, rtol=0, atol=1e-12)


def test_ntk_lowers_the_slowest_pair_by_the_factor_and_the_fastest_not_at_all() -> None:
    plain, scaled = (made(name).frequencies(CPU, EXACT) for name in ("rotary", "rotary_ntk"))
    assert (plain / scaled)[[0, -1]].tolist() == pytest.approx([1.0, 4.0])


def test_yarn_multiplies_scores_by_the_square_of_its_magnitude() -> None:
    yarn = made("rotary_yarn", factor=8.0)
    assert yarn.magnitude == pytest.approx(0.1 * math.log(8.0) + 1.0)
    x, rotation = torch.randn(1, 1, 1, 64, dtype=EXACT), yarn.rotation(torch.tensor([[0]]), EXACT)
    turned = yarn.rotate(x, rotation)
    torch.testing.assert_close((turned @ turned.mT), x @ x.mT * yarn.magnitude**2)


def test_a_given_magnitude_is_taken() -> None:
    assert made("rotary_yarn", magnitude=1.5).magnitude == 1.5


@pytest.mark.parametrize("name", ["rotary_yarn", "rotary_llama3"])
def test_trained_length_is_the_models_unless_given(name: str) -> None:
    provided, fitted = (made(name, max_length=n, original_length=o) for n, o in ((4096, 512), (512, None)))
    assert torch.equal(provided.frequencies(CPU, EXACT), fitted.frequencies(CPU, EXACT))
    with pytest.raises(ValueError, match=r"set the position's original_length"):
        made(name, max_length=None)


@pytest.mark.parametrize("kind", [RotaryYarn, RotaryLlama3])
def test_turns_in_the_wrong_order_are_refused(kind: type[RotaryYarn | RotaryLlama3]) -> None:
    with pytest.raises(ValueError, match=r"fast_turns=1\.0 must be above slow_turns=1\.0"):
        kind(16, num_heads=1, max_length=8, causal=True, turns=TrainedTurns(fast_turns=1.0, slow_turns=1.0))


@pytest.mark.parametrize("name", SCALINGS)
def test_a_factor_below_one_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="choose 1 or more"):
        made(name, factor=0.5)
