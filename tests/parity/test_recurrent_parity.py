"""Mamba, Mamba-2 and RWKV-4 against `transformers`."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import (
    Mamba2Config,
    Mamba2ForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    RwkvConfig,
    RwkvForCausalLM,
)

import headtohead as h2h
from headtohead.pretrained.mamba import Mamba2Family, MambaFamily
from headtohead.pretrained.model_family import InexpressibleError, ModelFamily
from headtohead.pretrained.rwkv import RwkvFamily
from parity.parity import Case, check
from parity.token_rows import VOCABULARY, token_rows

SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 2, "use_cache": False, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip


def compare(
    name: str, family: ModelFamily, reference: Any, config: Any, *, masks: bool = True, remark: str = ""
) -> None:
    theirs, ours = token_rows()
    options = theirs if masks else {"input_ids": theirs["input_ids"]}
    check(name, Case(family, reference, config, options, ours, scored=ours["valid"]), remark=remark)


@pytest.mark.parametrize("biased", [False, True])
def test_mamba_equals_its_reference(biased: bool) -> None:
    own = {"use_bias": True, "use_conv_bias": False, "time_step_rank": 5, "tie_word_embeddings": False, "expand": 3}
    config = MambaConfig(**SMALL, state_size=6, pad_token_id=0, **(own if biased else {}))
    compare("Mamba, biases, head of its own" if biased else "Mamba", MambaFamily(), MambaForCausalLM, config)


@pytest.mark.parametrize("num_groups", [1, 2])
def test_mamba2_equals_its_reference(num_groups: int) -> None:
    config = Mamba2Config(
        **SMALL, pad_token_id=0, state_size=6, num_heads=4, head_dim=12, n_groups=num_groups, chunk_size=4
    )
    compare(f"Mamba-2, {num_groups} groups", Mamba2Family(), Mamba2ForCausalLM, config)


@pytest.mark.parametrize(
    ("family", "config"),
    [
        (MambaFamily(), MambaConfig(**SMALL, state_size=6, time_step_rank=5, pad_token_id=0)),
        (Mamba2Family(), Mamba2Config(**SMALL, state_size=6, num_heads=4, head_dim=12, n_groups=2, pad_token_id=0)),
        (RwkvFamily(), RwkvConfig(**SMALL, attention_hidden_size=36, intermediate_size=40)),
    ],
    ids=["mamba", "mamba2", "rwkv"],
)
def test_a_model_of_ours_is_written_in_the_words_that_it_was_read_from(family: ModelFamily, config: Any) -> None:
    options = family.overrides(family.complete(config.to_dict()), "language_model")
    model = h2h.compose("train", options)["model"]
    written = family.hub_config(model)
    again = type(config)(**written)
    for name in written.keys() - {"architectures"}:
        assert getattr(again, name) == getattr(config, name), name
    assert family.overrides(family.complete(again.to_dict()), "language_model") == options


def test_mamba2_with_bounded_steps_is_refused() -> None:
    config = Mamba2Config(**SMALL, pad_token_id=0, num_heads=4, head_dim=12, time_step_limit=(0.0, 0.1))
    with pytest.raises(InexpressibleError, match="time_step_limit"):
        Mamba2Family().complete(config.to_dict())


@pytest.mark.slow
@pytest.mark.parametrize("wider", [False, True])
def test_rwkv_equals_its_reference(wider: bool) -> None:
    # The reference's state is as wide as the model, so that a wider attention works without a cache alone.
    own = {"attention_hidden_size": 36, "intermediate_size": 40, "tie_word_embeddings": True}
    config = RwkvConfig(**SMALL, rescale_every=0, **(own if wider else {}))
    name = "RWKV-4, wider attention, tied head" if wider else "RWKV-4"
    compare(name, RwkvFamily(), RwkvForCausalLM, config, masks=False, remark="rescale_every=0, which changes no output")
