"""The supported families, by the name in config.json, and the translation of a config.json into the overrides that
compose our model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.albert import AlbertFamily
from headtohead.pretrained.bart import BartFamily, MbartFamily
from headtohead.pretrained.bert_descendants import DistilBertFamily, ElectraFamily, RoFormerFamily
from headtohead.pretrained.bert_like import BertFamily, RobertaFamily
from headtohead.pretrained.bloom import BloomFamily
from headtohead.pretrained.cohere2 import Cohere2Family
from headtohead.pretrained.convnext import ConvNextFamily
from headtohead.pretrained.deberta import DebertaFamily
from headtohead.pretrained.deepseek_v3 import DeepseekV3Family
from headtohead.pretrained.fnet import FNetFamily
from headtohead.pretrained.gemma import Gemma2Family, Gemma3Family
from headtohead.pretrained.gpt2 import Gpt2Family
from headtohead.pretrained.gpt_neox import GptJFamily, GptNeoXFamily
from headtohead.pretrained.gpt_oss import GptOssFamily
from headtohead.pretrained.hub_checkpoint import Checkpoint
from headtohead.pretrained.kimi_linear import KimiLinearFamily
from headtohead.pretrained.lfm2 import Lfm2Family
from headtohead.pretrained.llama import LlamaFamily, Qwen2Family, Qwen3Family
from headtohead.pretrained.llama_descendants import DiffLlamaFamily, MistralFamily, MixtralFamily, Olmo2Family
from headtohead.pretrained.mamba import Mamba2Family, MambaFamily
from headtohead.pretrained.mamba_hybrids import BambaFamily, JambaFamily
from headtohead.pretrained.model_family import COUNTS, Hub, InexpressibleError, ModelFamily
from headtohead.pretrained.modernbert import ModernBertFamily
from headtohead.pretrained.mpt import MptFamily
from headtohead.pretrained.qwen3_moe import Qwen3MoeFamily
from headtohead.pretrained.qwen3_next import Qwen3NextFamily
from headtohead.pretrained.rwkv import RwkvFamily
from headtohead.pretrained.safetensor_files import CheckpointError
from headtohead.pretrained.sparse_encoders import BigBirdFamily, LongformerFamily
from headtohead.pretrained.swin import SwinFamily
from headtohead.pretrained.switch_transformers import SwitchTransformersFamily
from headtohead.pretrained.t5 import T5Family
from headtohead.pretrained.vit import VitFamily

_Overrides = Callable[[Hub], list[str]]
"""A function from the fields of a config.json to the overrides that compose our model."""
_NULL = re.compile(r"\bNone\b")
_SOME = (2, [2, 4], "relu")
"""Values of which a field of any type can have one."""
_FAULTS = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError)
"""The errors that reading raises where a field is absent or holds something of another type."""

FAMILIES: tuple[ModelFamily, ...] = (
    Gpt2Family(),
    LlamaFamily(),
    MistralFamily(),
    MixtralFamily(),
    Qwen2Family(),
    Qwen3Family(),
    Qwen3MoeFamily(),
    Qwen3NextFamily(),
    Olmo2Family(),
    DiffLlamaFamily(),
    Gemma2Family(),
    DeepseekV3Family(),
    KimiLinearFamily(),
    Gemma3Family(),
    GptOssFamily(),
    Cohere2Family(),
    Lfm2Family(),
    BambaFamily(),
    JambaFamily(),
    GptNeoXFamily(),
    GptJFamily(),
    BloomFamily(),
    MptFamily(),
    BertFamily(),
    RobertaFamily(),
    DistilBertFamily(),
    ElectraFamily(),
    RoFormerFamily(),
    DebertaFamily(),
    AlbertFamily(),
    FNetFamily(),
    ModernBertFamily(),
    LongformerFamily(),
    BigBirdFamily(),
    T5Family(),
    SwitchTransformersFamily(),
    BartFamily(),
    MbartFamily(),
    VitFamily(),
    ConvNextFamily(),
    SwinFamily(),
    MambaFamily(),
    Mamba2Family(),
    RwkvFamily(),
)
"""The families in the order in which a model of ours is offered to them."""


def family_of(config: Mapping[str, object]) -> ModelFamily:
    """Return the family of a config.json; raise InexpressibleError where it is not supported."""
    kind = config.get("model_type")
    for family in FAMILIES:
        if family.model_type == kind:
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise InexpressibleError(
        f"its config.json has model_type={kind}, and we know {known}: choose a checkpoint of these"
    )


FILE = Path(__file__).with_name("evidence.json")


@dataclass(frozen=True)
class ParityEvidence:
    """The comparisons of one family with its reference, all in 32 bits."""

    models: int
    """Configurations compared with the same weights."""
    logits: float
    """The largest difference of a logit."""
    gradients: float
    """The largest difference of a gradient, relative to the largest entry of its tensor above 1."""
    changes: int
    """Single changes of a checkpoint's fields and tensors that were tried."""
    equal: int
    """Those of them after which both sides gave the same logits."""
    refused: int
    """Those that ours or the reference refused."""
    announced: int
    """The differences that change the logits, as a line at load announces."""

    def __str__(self) -> str:
        announced = f", {self.announced} different as a line at load says" if self.announced else ""
        return (
            f"compared: {self.models} models, logits within {self.logits:.1e}, gradients within {self.gradients:.1e}; "
            f"{self.changes} changed checkpoints: {self.equal} equal, {self.refused} refused{announced}"
        )


@cache
def parity_evidence() -> dict[str, ParityEvidence]:
    """Return what was compared with the reference, by model_type."""
    evidence = json.loads(FILE.read_text(encoding="utf-8"))
    return {kind: ParityEvidence(**figures) for kind, figures in evidence.items()}


def read_config(checkpoint: Checkpoint) -> tuple[ModelFamily, Hub]:
    """Return the family of a checkpoint and its completed config.json; raises CheckpointError where it is refused."""
    try:
        family = family_of(checkpoint.config)
        return family, family.completed_by_names(family.complete(checkpoint.config), checkpoint.names)
    except _FAULTS as error:
        raise _refusal(checkpoint, error) from None


def model_overrides(checkpoint: Checkpoint, head: HeadName) -> list[str]:
    """Return the overrides that compose our model with this head; raise CheckpointError where the file is refused."""
    try:
        family = family_of(checkpoint.config)
        return _overrides_without_nulls(partial(_overrides, family, checkpoint, head), family, checkpoint.config)
    except _FAULTS as error:
        raise _refusal(checkpoint, error) from None


def _overrides(family: ModelFamily, checkpoint: Checkpoint, head: HeadName, config: Hub) -> list[str]:
    return family.overrides(family.completed_by_names(family.complete(config), checkpoint.names), head)


def differences(checkpoint: Checkpoint, head: HeadName) -> list[str]:
    """Return the differences from the reference by design, a sentence each."""
    family, hub = read_config(checkpoint)
    try:
        return list(family.differences(hub, head))
    except _FAULTS as error:
        raise _refusal(checkpoint, error) from None


def _refusal(checkpoint: Checkpoint, error: Exception) -> CheckpointError:
    origin = f"init_from={checkpoint.origin}"
    if isinstance(error, CheckpointError):
        return error
    if isinstance(error, InexpressibleError):
        return CheckpointError(f"{origin}: {error}")
    if isinstance(error, KeyError):
        return CheckpointError(f"{origin}: its config.json has no {error.args[0]}; fetch it again")
    return CheckpointError(f"{origin}: its config.json makes no model ({error}); fetch it again")


def _overrides_without_nulls(overrides: _Overrides, family: ModelFamily, config: Hub) -> list[str]:
    """Return the overrides of a config.json; raise InexpressibleError that names a null with which there are none."""
    try:
        composed = overrides(config)
    except _FAULTS as error:
        if isinstance(error, KeyError):  # a field that is not there is named already
            raise
        if not isinstance(error, InexpressibleError) or _speaks_of_nothing(str(error), config):
            _refuse_null(overrides, family, config)
        raise
    if any(map(_NULL.search, composed)):
        _refuse_null(overrides, family, config)
    return composed


def _refuse_null(overrides: _Overrides, family: ModelFamily, config: Hub) -> None:
    """Refuse the null that makes no model where a value makes one, or else all counts that are null."""
    usual = {field: family.defaults.get(family.synonyms.get(field, field), _SOME) for field in config}
    empty = [field for field, value in config.items() if value is None and usual[field] is not None]
    for field in empty:
        values = _SOME if usual[field] is _SOME else (usual[field], *_SOME)
        if any(_makes_a_model(overrides, {**config, field: value}) for value in values):
            raise InexpressibleError(f"its config.json has {field}=null, with which it makes no model: give it a value")
    if counts := [f"{field}=null" for field in empty if field in COUNTS]:
        raise InexpressibleError(f"its config.json has {' and '.join(counts)}: give whole numbers above 0")


def _speaks_of_nothing(message: str, config: Hub) -> bool:
    """Return whether a message holds a null and does not name the field it comes from."""
    return bool(_NULL.search(message)) and not any(f"has {field}=None" in message for field in config)


def _makes_a_model(overrides: _Overrides, config: Hub) -> bool:
    try:
        return not any(map(_NULL.search, overrides(config)))
    except _FAULTS:
        return False
