"""A finished run over pairs of texts as a judge of query and document read together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from headtohead.architectures.heads import Classifier, Regressor
from headtohead.architectures.vocabulary_heads import MaskedLanguageModelAndPair
from headtohead.building.errors import ConfigurationError, nearest
from headtohead.data.judged import second_part
from headtohead.data.rows import as_tensor, padded
from headtohead.examining.retrieval.embedder import BATCH_SIZE
from headtohead.examining.retrieval.rows import RowMaker

if TYPE_CHECKING:
    from headtohead.examining.finished import FinishedRun

_RELEVANT = (
    "relevant", "entailment", "next", "duplicate", "paraphrase", "equivalent", "similar", "same", "match", "yes",
)  # fmt: skip
"""Names of classes that leave no doubt."""


class CrossEncoder:
    """The query first, the document second; the score is the logarithm of the share of the class that means relevant,
    or what a run of task=similarity says, in the units of its data."""

    def __init__(self, run: FinishedRun, relevant_class: str | None = None, batch_size: int = BATCH_SIZE) -> None:
        spec = run.data.spec()
        if spec.kind not in ("labelled_text", "scored_text") or spec.num_texts != 2:
            raise ConfigurationError(
                f"--cross-encoder {run.folder.name} was not trained on pairs of texts: give one of task=classification "
                "whose data has two texts in a row, such as data=pair_grammar"
            )
        self.run, self.batch_size, self.maker = run, batch_size, RowMaker(run)
        self.model = run.model_with(lambda config: config).to(run.device)
        if not isinstance(self.model.head, Classifier | MaskedLanguageModelAndPair):
            raise ConfigurationError(
                f"--cross-encoder {run.folder.name} judges no pair of texts: give a run of task=classification, "
                "similarity or masked_lm_next_sentence"
            )
        self.gives_number = isinstance(self.model.head, Regressor)
        if self.gives_number and relevant_class is not None:
            raise ConfigurationError(
                f"--relevant-class {relevant_class}: the cross-encoder gives a number and has no classes; leave it out"
            )
        self.mean, self.deviation = spec.score_mean, spec.score_deviation
        self.place = 0 if self.gives_number else _place(spec.class_names, relevant_class)

    @torch.no_grad()
    def scores(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Of each pair."""
        rows, first = self.maker.pairs(queries, documents)
        scores = np.empty(len(rows))
        order = np.argsort(rows.lengths, kind="stable")
        for start in range(0, len(order), self.batch_size):
            chosen = order[start : start + self.batch_size]
            tokens, valid = padded(rows.values, rows.offsets[chosen], rows.lengths[chosen])
            inputs = {
                "tokens": as_tensor(tokens),
                "valid": torch.from_numpy(valid),
                "token_types": second_part(valid, first[chosen]),
            }
            scores[chosen] = self._judged({name: part.to(self.run.device) for name, part in inputs.items()})
        return scores

    def _judged(self, inputs: dict[str, torch.Tensor]) -> np.ndarray:
        if isinstance(self.model.head, MaskedLanguageModelAndPair):
            logits = self.model.head.pair_logits(self.model.features(**inputs), inputs["valid"])
        else:
            logits = self.model(**inputs)
        if self.gives_number:
            return (self.mean + self.deviation * logits.double()).cpu().numpy()
        return logits.double().log_softmax(-1)[:, self.place].cpu().numpy()


def _place(names: Sequence[str], wanted: str | None) -> int:
    """Of the class that means relevant."""
    if wanted is not None:
        if wanted not in names:
            guess = nearest(wanted, names)
            hint = f"did you mean {guess}? It has " if guess else "it has "
            raise ConfigurationError(
                f"--relevant-class {wanted} is no class of the cross-encoder: {hint}{', '.join(names)}"
            )
        return list(names).index(wanted)
    found = [place for place, name in enumerate(names) if name.lower() in _RELEVANT]
    if len(found) != 1:
        raise ConfigurationError(
            f"which class of the cross-encoder means relevant, its names do not tell ({', '.join(names)}): name it, "
            f"--relevant-class {names[0]}"
        )
    return found[0]
