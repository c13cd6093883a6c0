"""Every task of conf/task with data, a batch of rows of unequal length and a small model that can do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataSpec
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.classification import Classification, ImageClassification
from headtohead.tasks.compression import Compression
from headtohead.tasks.contrastive_pairs import ContrastivePairs
from headtohead.tasks.masked_diffusion import MaskedDiffusion
from headtohead.tasks.masked_image import MaskedImageModelling
from headtohead.tasks.masked_lm import MaskedLanguageModelling
from headtohead.tasks.multi_token_prediction import MultiTokenPrediction
from headtohead.tasks.multiple_choice import MultipleChoice
from headtohead.tasks.next_sentence import MaskedLanguageModellingWithNextSentence
from headtohead.tasks.replaced_token_detection import ReplacedTokenDetection
from headtohead.tasks.seq2seq import SequenceToSequence
from headtohead.tasks.seq2seq_one_stack import SequenceToSequenceAtOnce, SequenceToSequenceInOneRow
from headtohead.tasks.similarity import Similarity
from headtohead.tasks.span_corruption import SpanCorruption, SpanCorruptionInOneRow
from headtohead.tasks.span_qa import SpanQuestionAnswering
from headtohead.tasks.tagging import Tagging
from headtohead.tasks.task import Task
from small_batches import (
    LANGUAGE,
    NEXT,
    PAIRS,
    QUESTIONS,
    SCORES,
    TAGS,
    decode,
    language_batch,
    pair_batch,
    question_batch,
    scored_batch,
    sentence_pair_batch,
    tagged_batch,
)
from small_models import small_model

IMAGES = DataSpec(kind="images", num_classes=5, image_shape=(3, 8, 8))
SPELLED = replace(NEXT, decode=decode, encode=lambda text: [5 + ord(letter) % 20 for letter in text])
NUM_ROWS = 6


def image_batch(num_rows: int) -> Batch:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(num_rows, 3, 8, 8, generator=generator)
    return Batch(rows=torch.arange(num_rows), images=images, targets=torch.arange(num_rows) % 5)


@dataclass(frozen=True)
class TaskCase:
    make: Callable[[], Task]
    family: str
    spec: DataSpec
    rows: Callable[[int], Batch]
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Choices of the small model that are others than usual."""

    def task(self) -> Task:
        return self.make().bind(self.spec)

    def model(self) -> Architecture:
        changes: dict[str, Any] = {"head": self.make().head, **self.changes}
        if self.family != "vision_transformer":
            task = self.task()
            changes |= {"head": task.head, "max_length": None, "vocab_size": task.spec.vocab_size}
            changes |= {name: getattr(task, name) for name in task.head_fields}
        if self.family != "encoder_decoder":
            changes["num_classes"] = self.spec.num_classes
        return small_model(self.family, **changes)

    def batch(self) -> Batch:
        return self.rows(NUM_ROWS)

    def view(self) -> Batch:
        return self.task().training_view(self.batch(), seed=0, epoch=0)


TASKS: dict[str, TaskCase] = {
    "causal_lm": TaskCase(CausalLanguageModelling, "decoder_only", LANGUAGE, language_batch),
    "classification": TaskCase(Classification, "encoder_only", NEXT, sentence_pair_batch),
    "compression": TaskCase(Compression, "decoder_only", LANGUAGE, language_batch),
    "contrastive_pairs": TaskCase(ContrastivePairs, "encoder_only", PAIRS, pair_batch),
    "image_classification": TaskCase(ImageClassification, "vision_transformer", IMAGES, image_batch),
    "masked_diffusion": TaskCase(MaskedDiffusion, "encoder_only", LANGUAGE, language_batch),
    "masked_lm": TaskCase(lambda: MaskedLanguageModelling(mask_rate=0.4), "encoder_only", LANGUAGE, language_batch),
    "masked_lm_next_sentence": TaskCase(
        lambda: MaskedLanguageModellingWithNextSentence(mask_rate=0.4), "encoder_only", NEXT, sentence_pair_batch
    ),
    "masked_image_modeling": TaskCase(
        lambda: MaskedImageModelling(patch_size=2), "vision_transformer", IMAGES, image_batch
    ),
    "multi_token_prediction": TaskCase(MultiTokenPrediction, "decoder_only", LANGUAGE, language_batch),
    "multiple_choice": TaskCase(MultipleChoice, "decoder_only", SPELLED, sentence_pair_batch),
    "replaced_token_detection": TaskCase(
        lambda: ReplacedTokenDetection(mask_rate=0.4), "encoder_only", LANGUAGE, language_batch
    ),
    "seq2seq": TaskCase(SequenceToSequence, "encoder_decoder", PAIRS, pair_batch),
    "seq2seq_at_once": TaskCase(SequenceToSequenceAtOnce, "encoder_only", PAIRS, pair_batch),
    "seq2seq_one_row": TaskCase(SequenceToSequenceInOneRow, "decoder_only", PAIRS, pair_batch),
    "similarity": TaskCase(Similarity, "encoder_only", SCORES, scored_batch),
    "span_corruption": TaskCase(SpanCorruption, "encoder_decoder", LANGUAGE, language_batch),
    "span_corruption_one_row": TaskCase(SpanCorruptionInOneRow, "decoder_only", LANGUAGE, language_batch),
    "span_qa": TaskCase(SpanQuestionAnswering, "encoder_only", QUESTIONS, question_batch),
    "tagging": TaskCase(Tagging, "encoder_only", TAGS, tagged_batch),
}
