"""Choices composed once, with values set on a copy, give what Hydra gives of all overrides at once."""

from __future__ import annotations

import random
import warnings
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import OmegaConf

from headtohead.building.choices import config_folder
from headtohead.building.configuration import _compose_by_hydra
from headtohead.building.overrides import prepare

CHOICES = ["model/mixer=mamba", "model/norm=rms_norm", "data=copy", "experiment=parity", "optimizer=sgd", "model=mlp"]
VALUES = ["optimizer.lr=0.1", "model.d_model=32", "seed=7", "name='a, b'", "output_dir=x", "trainer.max_steps=3"]


def at_once(overrides: list[str]) -> Any:
    with warnings.catch_warnings(), initialize_config_dir(str(config_folder()), version_base="1.3"):
        composed = hydra_compose("train", overrides=overrides)
    return OmegaConf.to_container(composed, resolve=True)


def test_values_set_on_composed_choices_are_those_of_a_whole_composition(draw_seed: int) -> None:
    rng = random.Random(draw_seed)
    drawn = rng.sample(CHOICES, rng.randint(0, 2)) + rng.sample(VALUES, rng.randint(0, 4))
    rng.shuffle(drawn)
    if "model=mlp" in drawn:
        drawn = [one for one in drawn if not one.startswith("model/")]
    overrides = prepare(drawn)
    config, _ = _compose_by_hydra("train", overrides, (config_folder(),))
    assert config == at_once(overrides), drawn
