"""Overrides before Hydra sees them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from headtohead.config.compose.composition import compose
from headtohead.config.compose.overrides import override_combinations, prepare, value_in_override
from headtohead.config.errors import ConfigurationError


@pytest.mark.parametrize(
    ("provided", "handed_on"),
    [
        ("optimizer.lr=0.1", "++optimizer.lr=0.1"),
        ("+optimizer.lr=0.1", "++optimizer.lr=0.1"),
        ("++optimizer.lr=0.1", "++optimizer.lr=0.1"),
        ("tags=[a,b]", "++tags=[a,b]"),
        ("notes='a = b'", "++notes='a = b'"),
        ("notes=", "++notes="),
        ("model=decoder_only", "model=decoder_only"),
        ("model/mixer=softmax_attention", "model/mixer=softmax_attention"),
        ("+model/mixer=softmax_attention", "+model/mixer=softmax_attention"),
        ("++model/mixer=softmax_attention", "model/mixer=softmax_attention"),
        ("+experiment=copy", "experiment=copy"),
        ("model/norm@model.decoder.norm=layer_norm", "model/norm@model.decoder.norm=layer_norm"),
        ("~tags", "~tags"),
    ],
)
def test_values_are_forced_and_choices_are_left_to_hydra(provided: str, handed_on: str) -> None:
    assert prepare([provided]) == [handed_on]


@pytest.mark.parametrize("read", [lambda typed: prepare([typed]), lambda typed: override_combinations([typed])])
@pytest.mark.parametrize("file", ["", "/record.json"])
def test_a_run_in_place_of_an_override_is_named_with_what_takes_it(
    read: Callable[[str], object], file: str, tmp_path: Path
) -> None:
    (tmp_path / "record.json").touch()
    (tmp_path / "data.csv").touch()
    with pytest.raises(ConfigurationError) as refusal:
        read(f"{tmp_path}{file}")
    assert f"by --from-run {tmp_path}{file}; init_from={tmp_path} takes" in str(refusal.value)
    with pytest.raises(ConfigurationError, match=r"^'[^']*/data\.csv' is a path, .* data\.path=/") as refusal:
        read(f"{tmp_path}/data.csv")
    assert "from-run" not in str(refusal.value)


@pytest.mark.parametrize(
    ("provided", "sentence"),
    [
        ("optimizer", ["'optimizer' has no value", "write optimizer=value"]),
        (str(Path(__file__)), ["is a path, and no override: write the field", "data.path=/"]),
        ("=3", ["'=3' is not an override", "field=value"]),
        ("model=decoder_onl", ["model=decoder_onl does not exist", "did you mean decoder_only?", "encoder_only"]),
        ("precision=32", ["precision=32 does not exist", "did you mean 32-true?"]),
        ("optimizer=zzz", ["optimizer=zzz does not exist", "choose from", "adamw"]),
        ("data=null", ["data=null does not exist", "choose from"]),
        ("model/mixr=softmax_attention", ["model/mixr is not a group", "did you mean model/mixer?"]),
        ("model/postion@model.decoder.position=none", ["model/postion is not a group", "did you mean model/position?"]),
        ("model.mixer=softmax_attention", ["written with a slash", "model/mixer=softmax_attention"]),
        ("model.mixer={a: 3}", ["model.mixer is a group", "DIR/model/mixer/NAME.yaml", "--config-dir DIR"]),
        ("hydra.run.dir=here", ["hydra.run.dir has no effect", "output_dir"]),
        ("model/d_model=3", ["model/d_model is not a group", "written with dots"]),
    ],
)
def test_what_no_file_can_answer_is_refused(provided: str, sentence: list[str]) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        prepare([provided])
    for part in sentence:
        assert part in str(refusal.value)


def test_a_study_is_no_part_of_one_run() -> None:
    with pytest.raises(ConfigurationError, match="many runs, and no part of one: `h2h study norms_small`"):
        prepare(["study=norms_small"])


def test_a_text_of_any_signs_is_read_as_it_was() -> None:
    signs = ("\\", "${", "}", "x.y", "'", '"', ", ")
    texts = ["".join(word) for length in (1, 2, 3) for word in product(signs, repeat=length)]
    assert compose("train", [f"tags={value_in_override(texts)}"])["tags"] == texts
