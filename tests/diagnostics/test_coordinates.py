"""A coordinate check: flat under maximal update, growing under the standard, which is its negative control."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import pytest

from doctor_runs import DECODER
from headtohead.cli import main
from headtohead.config.errors import ConfigurationError
from headtohead.diagnostics.activation_sizes import measure_activations
from headtohead.diagnostics.coordinate_plan import CoordinatePlan
from headtohead.diagnostics.coordinate_results import (
    ActivationSize,
    CoordinateResults,
    plot_coordinates,
    show_coordinates,
)

RUN = [*DECODER, "optimizer.lr=3e-3", "tracking=none", "trainer.accelerator=cpu", "trainer.threads=1"]
MUP = "parametrisation=mup"


@cache
def result(parametrisation: str) -> CoordinateResults:
    return measure_activations(
        CoordinatePlan([*RUN, f"parametrisation={parametrisation}"], (64, 128, 256), num_steps=3, num_seeds=2)
    )


def power_law(**exponents: float) -> CoordinateResults:
    """Each place's change grows with this power of the width, its size at the start with that of `start`."""
    start = exponents.pop("start", 0.0)
    return CoordinateResults(
        tuple(
            ActivationSize(width, 0, step, position, width**start, step * width**exponent)
            for width in (32, 64, 128)
            for step in (0, 1)
            for position, exponent in exponents.items()
        ),
        config={},
    )


@pytest.mark.slow
def test_under_maximal_update_training_changes_blocks_as_much_at_every_width() -> None:
    findings = result("mup")
    for position in ("embedding", "stack.blocks.0", "stack.blocks.1"):
        exponent = findings.exponent(position, 3, "change")
        assert exponent is not None and abs(exponent.value) < 0.25, (position, exponent)
    assert findings.is_flat


@pytest.mark.slow
def test_under_the_standard_what_training_changes_grows_with_the_width() -> None:
    findings = result("standard")
    for position in ("stack.blocks.0", "stack.blocks.1", "logits"):
        exponent = findings.exponent(position, 3, "change")
        assert exponent is not None and exponent.value > 0.4, (position, exponent)
        assert findings.verdict(position) == "grows"
    assert not findings.is_flat


@pytest.mark.slow
def test_blocks_start_alike_under_maximal_update_and_larger_in_wider_models_under_the_standard() -> None:
    starts = {name: result(name).exponent("stack.blocks.1", 0, "size") for name in ("mup", "standard")}
    assert starts["mup"] is not None and abs(starts["mup"].value) < 0.1
    assert starts["standard"] is not None and starts["standard"].value > 0.4


def test_a_planted_power_of_the_width_is_recovered() -> None:
    exponent = power_law(block=0.7).exponent("block", 1, "change")
    assert exponent is not None and exponent.value == pytest.approx(0.7) and math.isnan(exponent.error)


def test_logits_may_shrink_as_they_start_and_nothing_else_may() -> None:
    assert power_law(logits=-0.4, start=-0.5).verdict("logits") == "fading"
    assert power_law(logits=-1.0, start=-0.5).verdict("logits") == "shrinks"
    assert power_law(block=-0.4, start=-0.5).verdict("block") == "shrinks"


def test_what_is_no_number_has_no_exponent_and_is_no_pass() -> None:
    broken = power_law(logits=math.nan)
    assert broken.verdict("logits") == "no number" and not broken.is_flat
    json.dumps(broken.to_dict(), allow_nan=False)
    show_coordinates(broken)


@pytest.mark.slow
def test_a_picture_is_drawn(tmp_path: Path) -> None:
    plot_coordinates(power_law(block=0.1, logits=-0.5), tmp_path / "coordinates.png")
    assert (tmp_path / "coordinates.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"widths": (64,)}, "--widths 64 cannot show growth"),
        ({"widths": (32, 64), "num_steps": 0}, "--steps must be at least 1"),
        ({"widths": (32, 64), "num_seeds": 0}, "--seeds must be at least 1"),
    ],
)
def test_a_plan_that_shows_nothing_is_refused(plan: dict, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        CoordinatePlan([], **plan)


def test_heads_become_more_where_that_is_asked_for() -> None:
    provided = [*RUN, "model.num_heads=4", MUP, "parametrisation.base_head_width=16"]
    configs = CoordinatePlan(provided, (64, 128), heads="more").configs
    assert [config["model"]["num_heads"] for config in configs.values()] == [4, 8]
    assert {config["parametrisation"]["base_width"] for config in configs.values()} == {64}
    with pytest.raises(ConfigurationError, match="which does not divide width 100"):
        CoordinatePlan(provided, (64, 100), heads="more").configs  # noqa: B018  it is composed when it is read


@pytest.mark.slow
def test_the_command_says_by_its_exit_code_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--widths", "64,256", "--steps", "1", "--seeds", "1", "--json"]
    assert main(["coordinates", *RUN, *few]) == 1
    message = json.loads(capsys.readouterr().out)
    assert message["widths"] == [64, 256] and message["verdicts"]["stack.blocks.0"] == "grows" and not message["flat"]
    assert main(["coordinates", "--widths", "a,b"]) == 2
    assert "--widths a,b are not numbers" in capsys.readouterr().err
