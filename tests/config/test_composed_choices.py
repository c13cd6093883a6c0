"""Choices made by putting their files in place, with values set on a copy, give what Hydra gives of all at once."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import ConfigCompositionException
from omegaconf import OmegaConf

from headtohead.config.compose.by_hydra import compose_by_hydra
from headtohead.config.compose.choices import choice_names, config_folder, groups
from headtohead.config.compose.overrides import prepare
from headtohead.config.errors import ConfigurationError

GROUPS = [group for group in groups() if group not in ("budget", "launcher", "experiment", "model")]
VALUES = ["optimizer.lr=0.1", "model.d_model=32", "seed=7", "name='a, b'", "output_dir=x", "trainer.max_steps=3"]


def at_once(overrides: list[str]) -> tuple[Any, Any]:
    with warnings.catch_warnings(), initialize_config_dir(str(config_folder()), version_base="1.3"):
        composed = hydra_compose("train", overrides=overrides, return_hydra_config=True)
    own = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
    chosen = OmegaConf.to_container(composed.hydra.runtime.choices)
    assert isinstance(chosen, dict)
    listed = {group: name for group, name in sorted(chosen.items()) if not group.startswith("hydra/")}
    return OmegaConf.to_container(own, resolve=True), listed


@pytest.mark.slow
def test_values_set_on_composed_choices_are_those_of_a_whole_composition(draw_seed: int) -> None:
    rng = random.Random(draw_seed)
    drawn = [f"{group}={rng.choice(choice_names(group))}" for group in rng.sample(GROUPS, rng.randint(0, 5))]
    for group in ("model", "experiment"):
        if rng.random() < 0.3:
            drawn.append(f"{group}={rng.choice(choice_names(group))}")
    drawn += rng.sample(VALUES, rng.randint(0, 4))
    rng.shuffle(drawn)
    overrides = prepare(drawn)
    try:
        expected, chosen = at_once(overrides)
    except ConfigCompositionException:
        with pytest.raises(ConfigurationError):
            compose_by_hydra("train", overrides, (config_folder(),))
        return
    assert compose_by_hydra("train", overrides, (config_folder(),)) == (expected, chosen), drawn
