"""Plans of drawn runs, of every mixer and every family, beside what a meter sees: no size of theirs was fitted to."""

from __future__ import annotations

import random

import pytest

from estimates.drawn_plans import QUIET, Overrides, composed, drawn_family, drawn_mixer, metered, planned
from headtohead.config.compose.choices import choices
from training.compiled_runs import FAMILIES

MIXERS = [choice.name for choice in choices("model/mixer")]
BY_STEPS = [name for name in FAMILIES if name != "bag_of_words"]


def check(overrides: Overrides, monkeypatch: pytest.MonkeyPatch) -> None:
    config = composed(overrides)
    assert config is not None
    seen = metered(config, monkeypatch)
    assert planned(config) == pytest.approx(seen, rel=0.05), " ".join(overrides)


@pytest.mark.whole
@pytest.mark.parametrize("mixer", MIXERS)
def test_bytes_of_every_mixer_are_within_five_percent(mixer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(drawn_mixer(mixer, random.Random(mixer)), monkeypatch)


@pytest.mark.whole
@pytest.mark.parametrize("family", BY_STEPS)
def test_bytes_of_every_family_are_within_five_percent(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(2):
        check(drawn_family(family, random.Random(f"{family}-{seed}")), monkeypatch)


@pytest.mark.slow
def test_bytes_of_drawn_runs_are_within_five_percent(draw_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(draw_seed)
    name = draw.choice([*MIXERS, *BY_STEPS])
    check(drawn_family(name, draw) if name in BY_STEPS else drawn_mixer(name, draw), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("multiple", [4, 8])
def test_the_last_norm_is_differentiated_while_all_blocks_are_saved(
    multiple: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A root-mean-square norm of bfloat16 has more copies in float32 than a small feed-forward has tensors."""
    run = [*QUIET, *FAMILIES["vision_transformer"], "precision=bf16-true", "model/norm=rms_norm"]
    check([*run, f"model.feedforward.multiple={multiple}"], monkeypatch)
