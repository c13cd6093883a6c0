"""The families that are known, by what config.json calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headtohead.pretrained.bart import Bart
from headtohead.pretrained.bert import Bert
from headtohead.pretrained.big_bird import BigBird
from headtohead.pretrained.bloom import Bloom
from headtohead.pretrained.family import Family, InexpressibleError
from headtohead.pretrained.gpt2 import Gpt2
from headtohead.pretrained.gpt_neox import GptNeoX
from headtohead.pretrained.gptj import GptJ
from headtohead.pretrained.llama import Llama, Qwen2, Qwen3
from headtohead.pretrained.longformer import Longformer
from headtohead.pretrained.mamba import Mamba
from headtohead.pretrained.mamba2 import Mamba2
from headtohead.pretrained.mistral import Mistral, Mixtral
from headtohead.pretrained.mpt import Mpt
from headtohead.pretrained.roberta import Roberta
from headtohead.pretrained.rwkv import Rwkv
from headtohead.pretrained.t5 import T5
from headtohead.pretrained.vit import Vit

FAMILIES: tuple[Family, ...] = (
    Gpt2(), Llama(), Mistral(), Mixtral(), Qwen2(), Qwen3(), GptNeoX(), GptJ(), Bloom(), Mpt(), Bert(), Roberta(),
    Longformer(), BigBird(), T5(), Bart(), Vit(), Mamba(), Mamba2(), Rwkv(),
)  # fmt: skip
"""In the order in which a model of ours is offered to them."""


def family_of(config: Mapping[str, Any]) -> Family:
    """That of a config.json; raises InexpressibleError where it is none of ours."""
    kind = config.get("model_type")
    for family in FAMILIES:
        if family.model_type == kind:
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise InexpressibleError(
        f"its config.json has model_type={kind}, and we know {known}: choose a checkpoint of these"
    )
