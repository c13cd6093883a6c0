"""Longformer (Beltagy et al. 2020, https://arxiv.org/abs/2004.05150)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.bert_like import RobertaFamily, RobertaLike
from headtohead.pretrained.model_description import Describable, Model, described
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, HubConfig, InexpressibleError


class LongformerFamily(RobertaLike):
    """RoBERTa with windows; the first token is global, as the reference makes it for a classifier.

    For hidden tokens the reference makes none global by default, which leaves the projections of global tokens idle;
    for questions it makes all tokens of the question global, so that its head for answers is not ours.
    """

    model_type = "longformer"
    architectures: ClassVar[Architectures] = {
        "LongformerForMaskedLM": "masked_language_model",
        "LongformerForSequenceClassification": "classifier",
        "LongformerForTokenClassification": "tagger",
        "LongformerForQuestionAnswering": None,
        "LongformerForMultipleChoice": None,
        "LongformerModel": None,
    }
    prefix = "longformer."
    heads = ("lm_head.", "classifier.", "qa_outputs.", "longformer.pooler.")
    defaults: ClassVar[Hub] = {**RobertaFamily.defaults, "attention_window": 512}
    accepts: ClassVar[Accepted] = {**RobertaLike.accepts, "attention_mode": ("longformer",)}
    more_of_a_layer: ClassVar[tuple[tuple[str, str], ...]] = tuple(
        (f"mixer.global_{name}", f"attention.self.{name}_global") for name in ("query", "key", "value")
    )

    def mixing(self, hub: Hub, head: HeadName) -> list[str]:
        """Return the overrides of the mixer; the hub's window counts both sides."""
        del head
        windows = hub["attention_window"]
        if not isinstance(windows, int):
            if len(set(windows)) != 1:
                raise InexpressibleError(
                    f"its config.json has attention_window={windows}, and all layers of ours have the same window: "
                    "choose another checkpoint"
                )
            windows = windows[0]
        return ["model/mixer=longformer", f"model.mixer.window={windows // 2}", "model.mixer.num_global=1"]

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del hub
        if head in ("masked_language_model", "tagger"):
            yield "its first token is global here, and in the reference where global_attention_mask says so alone"

    def hub_config(self, model: Model) -> HubConfig:
        config = super().hub_config(model)
        window = 2 * described(model, "mixer.window")
        return {**config, "attention_window": [window] * model["num_layers"], "sep_token_id": 2}

    def mixer_words(self, model: Model) -> Describable:
        del model
        return {
            "mixer": ("Longformer",),
            "mixer.num_global": (1,),
            "mixer.bias": (True,),
            "mixer.output_bias": (None, True),
        }
