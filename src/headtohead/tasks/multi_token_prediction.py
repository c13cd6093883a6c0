"""Predict several future tokens at once, which trains a model to plan ahead (Gloeckle et al. 2024,
https://arxiv.org/abs/2404.19737): a head for each, over the same features and the same matrix onto the vocabulary."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.architectures.vocabulary_heads import MultiTokenLanguageModel
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.ranges import Count, Probability
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.chunked_cross_entropy import cross_entropy_sum
from headtohead.tasks.task import Loss, Task
from headtohead.tasks.token_prediction import targets_of
from headtohead.tasks.vocabulary_loss import scored_index


class MultiTokenPrediction(CausalLanguageModelling):
    """Training minimises the sum of the losses of all heads, per position that has a next token; validation, test and
    samples are those of the next token's head, so that runs compare with those of causal language modelling."""

    head: ClassVar[HeadName] = "multi_token_language_model"
    head_fields: ClassVar[tuple[str, ...]] = ("num_future_tokens",)
    families: ClassVar[tuple[str, ...]] = ("decoder_only",)
    measured_as: ClassVar[str | None] = "CausalLanguageModelling"

    def __init__(
        self,
        num_future_tokens: Count = 4,
        label_smoothing: Probability = 0.0,
        monitor: str = "loss",
        without_labels: bool = False,
    ) -> None:
        super().__init__(label_smoothing, monitor, without_labels)
        self.num_future_tokens = num_future_tokens

    def bind(self, spec: DataSpec) -> Task:
        if spec.num_scored == 1:
            raise UsageError(
                "task=multi_token_prediction predicts several tokens ahead, and a row of this data asks for one alone: "
                "choose task=causal_lm, or data with longer answers."
            )
        return super().bind(spec)

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        """Return the sum over all heads; what counts is the number of next tokens, however many later ones there are.

        One call takes the rows of all heads, so that their logits never exist together and the gradient of the shared
        matrix is held once.
        """
        head, targets = _heads(model), targets_of(batch)
        rows = model.features(**batch.inputs()).flatten(0, 1)
        ahead = targets_ahead(targets, 1 + len(head.further)).flatten(1)
        if (index := scored_index(ahead[0], wait=self.few_are_scored)) is not None:
            rows, ahead = rows.index_select(0, index), ahead.index_select(1, index)
        total = cross_entropy_sum(
            torch.cat(head.transforms(rows)),
            head.weight,
            head.bias,
            ahead.flatten(),
            cap=head.cap,
            label_smoothing=self.label_smoothing if model.training else 0.0,
            workspace=self.workspace,
        )
        return Loss(total=total, count=(targets != IGNORED).sum())


def targets_ahead(targets: Int[Tensor, "B L"], number: int) -> Int[Tensor, "N B L"]:
    """Return the next token of each position, the one after it, and so on: IGNORED from where a row, a document in it,
    or its run of scored tokens ends."""
    ahead = [targets]
    for _ in range(number - 1):
        following = F.pad(ahead[-1][:, 1:], (0, 1), value=IGNORED)
        ahead.append(following.masked_fill(targets == IGNORED, IGNORED))
    return torch.stack(ahead)


def _heads(model: Architecture) -> MultiTokenLanguageModel:
    if not isinstance(model.head, MultiTokenLanguageModel):
        raise UsageError(
            f"head={type(model.head).__name__} predicts one token, and this task several: build the model with the "
            "head that the task names."
        )
    return model.head
