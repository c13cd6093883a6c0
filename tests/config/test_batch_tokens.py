"""trainer.batch_tokens is solved into rows and parts, for any length and number of devices, and says what it chose."""

from __future__ import annotations

import logging

import pytest

from headtohead.config.compose.composition import compose_checked
from headtohead.config.run_id import run_id

BASE = ["data=grammar_lm", "data.context_length=128"]


@pytest.mark.parametrize("tokens", [128, 1000, 16_384, 524_288, 700_001])
@pytest.mark.parametrize("devices", [1, 2, 3, 8])
def test_a_batch_has_nearly_so_many_tokens_in_equal_parts(
    tokens: int, devices: int, caplog: pytest.LogCaptureFixture
) -> None:
    ddp = ["trainer=ddp", f"trainer.devices={devices}"] if devices > 1 else []
    provided = [*BASE, *ddp, f"trainer.batch_tokens={tokens}"]
    if tokens < 128 * devices:
        with pytest.raises(ValueError, match="less than a row"):
            compose_checked("train", provided)
        return
    with caplog.at_level(logging.WARNING):
        config = compose_checked("train", provided)
    rows, parts = config["data"]["batch_size"], config["trainer"]["accumulate"]
    assert rows % (devices * parts) == 0 and rows // devices // parts * 128 <= 16_384
    assert 0.75 * tokens < rows * 128 <= tokens or rows == devices
    assert f"data.batch_size={rows} trainer.accumulate={parts}" in caplog.text
    by_hand = [*BASE, *ddp, f"data.batch_size={rows}", f"trainer.accumulate={parts}"]
    assert run_id(compose_checked("train", by_hand)) == run_id(config)


def test_what_cannot_be_solved_is_refused_with_the_field_to_type() -> None:
    with pytest.raises(ValueError, match="both say how large a batch is"):
        compose_checked("train", [*BASE, "trainer.batch_tokens=4096", "data.batch_size=8"])
    with pytest.raises(ValueError, match=r"data\.max_length=128"):
        compose_checked("train", ["data=csv", "data.path=a.csv", "task=classification", "model=encoder_only",
                                  "trainer.batch_tokens=4096"])  # fmt: skip


@pytest.mark.slow
def test_a_mix_has_rows_of_the_length_that_all_its_sources_have() -> None:
    lengths = ["data.sources.first.context_length=32", "data.sources.second.context_length=32"]
    config = compose_checked("train", ["data=mix", *lengths, "trainer.batch_tokens=256"])
    assert config["data"]["batch_size"] == 8
    with pytest.raises(ValueError, match=r"give all data\.sources the same context_length"):
        compose_checked("train", ["data=mix", *lengths[:1], "trainer.batch_tokens=256"])
