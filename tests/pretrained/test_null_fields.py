"""A null in a stranger's config.json composes a model, or is refused by the name of its field."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.pretrained.families import model_overrides
from headtohead.pretrained.hub_checkpoint import Checkpoint
from headtohead.pretrained.safetensor_files import CheckpointError
from parity.published_models import MODELS, config_class


@pytest.mark.parametrize("name", MODELS)
def test_every_null_is_read_or_refused_by_its_name(name: str, tmp_path: Path) -> None:
    published = MODELS[name]
    fields = config_class(published)(**published.config).to_dict()
    for field in (field for field, value in fields.items() if value is not None):
        checkpoint = Checkpoint("hf:THEIRS", tmp_path)
        checkpoint.__dict__["config"] = {**fields, field: None}
        try:
            overrides = model_overrides(checkpoint, published.head)
        except CheckpointError as error:
            assert any(f"{field}={null}" in str(error) for null in ("null", "None")), error
        else:
            assert not any("None" in override for override in overrides), (field, overrides)


@pytest.mark.parametrize("period", [0, -1, 2.5])
@pytest.mark.parametrize(
    ("name", "field"), [("qwen3_moe", "decoder_sparse_step"), ("cohere2", "sliding_window_pattern")]
)
def test_a_period_of_layers_that_is_none_is_refused_by_its_name(
    name: str, field: str, period: float, tmp_path: Path
) -> None:
    published = MODELS[name]
    checkpoint = Checkpoint("hf:THEIRS", tmp_path)
    fields = config_class(published)(**published.config).to_dict()
    checkpoint.__dict__["config"] = {**fields, "layer_types": None, field: period}
    with pytest.raises(CheckpointError, match=f"{field}={period}, which must be a whole number of layers"):
        model_overrides(checkpoint, published.head)
