"""A run's texts as vectors of length 1: the features before its head, pooled over true tokens alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headtohead.architectures.bag_of_words import BagOfWords
from headtohead.architectures.contracts import Architecture
from headtohead.architectures.encoder_decoder import EncoderDecoder
from headtohead.architectures.external import External
from headtohead.architectures.heads import Classifier
from headtohead.architectures.mlp import Mlp
from headtohead.architectures.pooling import Pooling, pool
from headtohead.architectures.text_cnn import TextCnn
from headtohead.architectures.token_stack import TokenStack
from headtohead.architectures.vocabulary_heads import MaskedLanguageModelAndPair
from headtohead.building.errors import ConfigurationError
from headtohead.data.files import content_digest
from headtohead.data.rows import as_tensor, padded
from headtohead.data.storage import Ragged
from headtohead.examining.retrieval.rows import RowMaker
from headtohead.training.checkpoints import BEST

if TYPE_CHECKING:
    from headtohead.examining.finished import FinishedRun

BATCH_SIZE = 64
_WITH_ONE = (BagOfWords, Mlp, TextCnn)
"""Models with one vector for a text, which none of its tokens has."""
Vectors = Float[np.ndarray, "N D"]


class Embedder:
    """`pooling` is by default what the run's own head does, else the mean, or the last token of a decoder."""

    def __init__(self, run: FinishedRun, pooling: str | None = None, batch_size: int = BATCH_SIZE) -> None:
        if batch_size < 1:
            raise ConfigurationError(f"--batch-size {batch_size} must be at least 1")
        self.run, self.batch_size = run, batch_size
        name = (run.config.get("choices") or {}).get("model") or run.model.family
        self.maker = RowMaker(_readable(run, name))
        self.pooling = _known(pooling, run.model, name, self.maker)
        self.model = run.model_with(lambda config: config).to(run.device)
        self.num_cut = 0
        """Texts so far that were longer than the run reads."""

    @property
    def width(self) -> int:
        """Numbers in a vector."""
        count: int = self.embed(["a"]).shape[1]
        return count

    @property
    def fingerprint(self) -> str:
        """Of all that determines a text's vector: weights, tokens, pooling."""
        weights = content_digest(self.run.folder / "checkpoints" / BEST)
        told = f"{weights} {self.maker.tokenizer.digest} {self.maker.max_length} {self.pooling}"
        return hashlib.sha256(told.encode()).hexdigest()[:24]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """In the order of the texts, 32 bits each number."""
        if not texts:
            raise ConfigurationError("there is no text to embed: give at least one")
        rows = self.maker.rows(texts)
        self.num_cut += rows.num_cut
        # Rows of like length side by side: little padding, and the same vectors in any case.
        order = np.argsort(rows.tokens.lengths, kind="stable")
        vectors: np.ndarray | None = None
        for start in range(0, len(order), self.batch_size):
            chosen = order[start : start + self.batch_size]
            some = self._pooled(rows.tokens, chosen)
            vectors = np.empty((len(order), some.shape[1]), dtype=np.float32) if vectors is None else vectors
            vectors[chosen] = some
        assert vectors is not None, "there are texts"
        return vectors

    @torch.no_grad()
    def _pooled(self, rows: Ragged, chosen: np.ndarray) -> np.ndarray:
        tokens, valid = padded(rows.values, rows.offsets[chosen], rows.lengths[chosen])
        device = next(self.model.parameters()).device
        inputs = {"tokens": as_tensor(tokens).to(device), "valid": torch.from_numpy(valid).to(device)}
        pooled = F.normalize(pooled_features(self.model, inputs, self.pooling).double(), dim=-1)
        return pooled.float().cpu().numpy()


def pooled_features(model: Architecture, inputs: dict[str, Tensor], pooling: str) -> Tensor:
    """One vector for each row, of any length."""
    if isinstance(model, EncoderDecoder):
        return pool(model.encode(**inputs), inputs["valid"], pooling)
    features = model.features(**inputs)
    return features[:, 0] if isinstance(model, _WITH_ONE) else pool(features, inputs["valid"], pooling)


def embed_in_batches(
    embedder: Embedder, texts: Sequence[str], keep: Callable[[int, Vectors], None], tell: Callable[[int], object]
) -> None:
    """`keep` is given vectors and the number of their first text, `tell` how many are done."""
    at_once = 16 * embedder.batch_size
    for start in range(0, len(texts), at_once):
        vectors = embedder.embed(texts[start : start + at_once])
        keep(start, vectors)
        tell(start + len(vectors))


def _readable(run: FinishedRun, name: str) -> FinishedRun:
    if isinstance(run.model, External):
        raise ConfigurationError(
            f"model={name} of this run is a module of one's own that gives logits and shows no features: embed with a "
            "run of model=encoder_only, decoder_only, recurrent, encoder_decoder or text_cnn"
        )
    return run


def _known(pooling: str | None, model: Architecture, name: str, maker: RowMaker) -> Pooling:
    choices = get_args(Pooling)
    if pooling not in (None, *choices):
        raise ConfigurationError(f"--pooling {pooling} is unknown: choose one of {', '.join(choices)}")
    if isinstance(model, _WITH_ONE):
        if pooling not in (None, "mean"):
            raise ConfigurationError(
                f"--pooling {pooling}: model={name} has one vector for the whole text; leave it out"
            )
        return "mean"
    reads_one_way = isinstance(model, TokenStack) and model.stack.causal
    if pooling is None:
        if isinstance(model.head, Classifier | MaskedLanguageModelAndPair):
            return _known(model.head.pooling, model, name, maker)
        return "last" if reads_one_way else "mean"
    if pooling == "cls" and (reads_one_way or not maker.has_start):
        why = (
            "reads one way, and its first token sees no other" if reads_one_way else "reads texts without a start token"
        )
        raise ConfigurationError(f"--pooling cls: model={name} of this run {why}; choose mean or last")
    chosen: Pooling = next(choice for choice in choices if choice == pooling)
    return chosen
