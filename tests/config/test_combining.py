"""Sweeps on the command line become combinations as Hydra makes them."""

from __future__ import annotations

import pytest

from headtohead.config.compose.choices import choice_names
from headtohead.config.compose.overrides import override_combinations
from headtohead.config.errors import ConfigurationError


def test_every_combination_appears_once_with_what_is_fixed() -> None:
    assert override_combinations(["model/norm=layer_norm,rms_norm", "seed=0,1", "notes='a, b'"]) == [
        (f"model/norm={norm}", f"seed={seed}", "notes='a, b'") for norm in ("layer_norm", "rms_norm") for seed in (0, 1)
    ]


def test_nothing_swept_is_one_run() -> None:
    assert override_combinations(["seed=3", "tags=[a,b]"]) == [("seed=3", "tags=[a,b]")]
    assert override_combinations([]) == [()]


@pytest.mark.parametrize(
    ("override", "points"),
    [
        ("seed=range(0,5,2)", ["seed=0", "seed=2", "seed=4"]),
        ("seed=range(2)", ["seed=0", "seed=1"]),
        ("optimizer.lr=choice(1e-5,1)", ["optimizer.lr=1e-05", "optimizer.lr=1"]),
        ("model.pattern=[lstm,mamba],[mamba]", ["model.pattern=[lstm,mamba]", "model.pattern=[mamba]"]),
        ("notes='a, b',c", ["notes='a, b'", "notes=c"]),
        (
            "+model/mixer@model.mixers.x=lstm,gru",
            ["+model/mixer@model.mixers.x=lstm", "+model/mixer@model.mixers.x=gru"],
        ),
        ("model/position=glob(rotary*,exclude=rotary_*)", ["model/position=rotary"]),
        ("model/norm=glob(*)", [f"model/norm={name}" for name in choice_names("model/norm")]),
    ],
)
def test_sweeps_are_read_as_hydra_reads_them(override: str, points: list[str]) -> None:
    assert override_combinations([override]) == [(point,) for point in points]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimizer.lr=interval(0,1)", "has no end of values: list them"),
        ("seed=glob(*)", "glob chooses among files of a group, and seed is none"),
        ("model/norm=glob(x*)", "fits none of"),
        ("seed=range(0,3", "could not be read"),
        ("seed=range(0,20000)", "more than 10,000 combinations"),
    ],
)
def test_what_has_no_combinations_is_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        override_combinations([override])
