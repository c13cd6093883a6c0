"""BLEU of a whole split: words and up to four in a row that texts share with their targets, and how long they are
(Papineni et al. 2002, https://aclanthology.org/P02-1040), with the words of WMT's script mteval-v13a, as sacrebleu has
them (Post 2018, https://aclanthology.org/W18-6319)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from torchmetrics.text import SacreBLEUScore

from headtohead.metrics.bleu import BLEU
from headtohead.tasks.text_measures.contracts import TextMeasure

ORDERS = 4


class Bleu(TextMeasure):
    """Without smoothing: 0 where no four words in a row are right anywhere."""

    metrics = (BLEU,)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"bleu_right": (ORDERS,), "bleu_written": (ORDERS,), "bleu_words": (), "bleu_wanted": ()}

    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        """Counted by torchmetrics, in numbers that a batch cannot outgrow; over batches our own sums are wider."""
        counts = SacreBLEUScore(n_gram=ORDERS, tokenize="13a")
        counts.update(list(written), [[truth] for truth in truths])
        return {
            "bleu_right": counts.numerator,
            "bleu_written": counts.denominator,
            "bleu_words": counts.preds_len,
            "bleu_wanted": counts.target_len,
        }

    def of_a_row(self, sums: Mapping[str, Any]) -> dict[str, float]:
        """None: a good sentence without four words in a row of the true one has 0."""
        del sums
        return {}

    def figures(self, sums: Mapping[str, Any]) -> dict[str, float]:
        if not all(sums["bleu_right"]):
            return {"bleu": 0.0}
        pairs = zip(sums["bleu_right"], sums["bleu_written"], strict=True)
        shares = math.exp(sum(math.log(right / written) for right, written in pairs) / ORDERS)
        return {"bleu": shares * min(1.0, math.exp(1 - sums["bleu_wanted"] / sums["bleu_words"]))}
