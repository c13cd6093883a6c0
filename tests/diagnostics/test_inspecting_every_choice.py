"""Every choice of the groups of a model is inspected on the meta device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import headtohead as h2h
from headtohead.architectures.architecture import InputSize
from headtohead.errors import UsageError
from usual_formats import assert_plays_no_part, gradients

CONF = Path(__file__).parents[2] / "conf" / "model"
CHOICES = sorted(
    f"{path.parent.name}={path.stem}"
    for path in CONF.glob("*/*.yaml")
    if path.parent.name not in {"cross", "size"} and not path.stem.startswith("_")
)
TEXT = ["model/size=tiny", "data=copy", "data.length=4", "data.num_train=100"]
IMAGES = ["model=vision_transformer", "model/size=tiny", "data=digits", "task=image_classification"]
UNDEFINED = {"mixer=fourier", "mixer=linformer", "mixer=mlp_mixer", "mixer=nystrom", "mixer=pooling"}
"""Choices that a decoder cannot have, since they look ahead."""


WINDOWED = ["model.pattern=[softmax_attention,sliding_window]"]


def overrides(choice: str) -> list[str]:
    """Return the choice beside what it needs: mixers that keep order themselves stand without positions, and a second
    base with a layer that sees a window.
    """
    needs = IMAGES if choice.endswith("_2d") else [*TEXT, *(WINDOWED if choice.endswith("two_bases") else [])]
    return [*needs, *(["model/position=none"] if choice.startswith("mixer=") else []), f"model/{choice}"]


@pytest.mark.sampled(40)
@pytest.mark.parametrize("choice", sorted(set(CHOICES) - UNDEFINED))
def test_every_choice_is_inspected(choice: str) -> None:
    inspection = h2h.inspect(h2h.compose("train", overrides(choice)))
    assert inspection.stages[-1].outputs[0][0] == 1


@pytest.mark.parametrize("choice", sorted(UNDEFINED))
def test_choices_that_look_ahead_are_refused_in_a_decoder(choice: str) -> None:
    with pytest.raises(UsageError):
        h2h.compose("train", overrides(choice))


@pytest.mark.sampled(36)
@pytest.mark.slow
@pytest.mark.parametrize("choice", sorted(set(CHOICES) - UNDEFINED))
def test_the_usual_format_of_new_tensors_plays_no_part(choice: str) -> None:
    """Else a model would compute other numbers where Lightning trains it in 16 bits than where a plan times it."""
    config = h2h.compose("train", [*overrides(choice), "model.d_model=16"])
    model = h2h.build_model(config).to(torch.bfloat16)
    inputs = model.example_inputs(InputSize(length=4), 2, torch.device("cpu"))

    def numbers() -> dict[str, Any]:
        torch.manual_seed(0)
        model.zero_grad()
        y = model(**{name: x.bfloat16() if x.is_floating_point() else x for name, x in inputs.items()})
        y.float().square().sum().backward()
        return {"logits": y.detach(), **gradients(model)}

    assert_plays_no_part(numbers)
