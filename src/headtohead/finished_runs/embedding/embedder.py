"""A run's texts as vectors of length 1: the features before its head, pooled over true tokens alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.bag_of_words import BagOfWords
from headtohead.architectures.encoder_decoder import EncoderDecoder
from headtohead.architectures.external_module import External
from headtohead.architectures.head_names import NEXT_TOKEN_HEADS
from headtohead.architectures.heads import Classifier
from headtohead.architectures.mlp import Mlp
from headtohead.architectures.pooling import Pooling, TextVector, pool
from headtohead.architectures.text_cnn import TextCnn
from headtohead.architectures.token_stack import TokenStack
from headtohead.architectures.vocabulary_heads import MaskedLanguageModelAndPair
from headtohead.config.errors import ConfigurationError
from headtohead.config.instantiate import target_of
from headtohead.config.run_config import RunConfig
from headtohead.data.cache.arrow_columns import Ragged
from headtohead.data.data_source import DataError, DataSource
from headtohead.data.row_formats.text_source import tokenizer_of
from headtohead.data.row_formats.token_rows import as_tensor, padded
from headtohead.data.sources.local_files import content_digest
from headtohead.data.tokenizers import Tokenizer
from headtohead.records.run_folder import RunFolder
from headtohead.training.checkpoints import BEST

if TYPE_CHECKING:
    from headtohead.finished_runs.finished_run import FinishedRun
if TYPE_CHECKING:
    from headtohead.finished_runs.finished_run import FinishedRun

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
        self.maker = TextRowMaker(_readable(run, name))
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
        """Return a digest of all that determines a text's vector: weights, tokens, pooling."""
        weights = content_digest(self.run.folder / "checkpoints" / BEST)
        parts = f"{weights} {self.maker.tokenizer.digest} {self.maker.max_length} {self.pooling}"
        return hashlib.sha256(parts.encode()).hexdigest()[:24]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors in the order of the texts, in 32 bits."""
        if not texts:
            raise ConfigurationError("there is no text to embed: give one or more")
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
    """Return one vector for each row, of any length."""
    if isinstance(model, EncoderDecoder):
        return pool(model.encode(**inputs), inputs["valid"], pooling)
    features = model.features(**inputs)
    return features[:, 0] if isinstance(model, _WITH_ONE) else pool(features, inputs["valid"], pooling)


def embed_in_batches(
    embedder: Embedder, texts: Sequence[str], keep: Callable[[int, Vectors], None], report: Callable[[int], object]
) -> None:
    """`keep` is given vectors and the number of their first text, `update_text` how many are done."""
    at_once = 16 * embedder.batch_size
    for start in range(0, len(texts), at_once):
        vectors = embedder.embed(texts[start : start + at_once])
        keep(start, vectors)
        report(start + len(vectors))


def _readable(run: FinishedRun, name: str) -> FinishedRun:
    if isinstance(run.model, External):
        raise ConfigurationError(
            f"model={name} of this run is an external module that gives logits and exposes no features: embed with a "
            "run of model=encoder_only, decoder_only, recurrent, encoder_decoder or text_cnn"
        )
    return run


def _known(pooling: str | None, model: Architecture, name: str, maker: TextRowMaker) -> Pooling:
    choices = get_args(Pooling)
    if pooling not in (None, *choices):
        raise ConfigurationError(f"--pooling {pooling} is unknown: choose one of {', '.join(choices)}")
    if isinstance(model, _WITH_ONE):
        if pooling not in (None, "mean"):
            raise ConfigurationError(
                f"--pooling {pooling}: model={name} computes one vector for the whole text; leave it out"
            )
        return "mean"
    reads_one_way = isinstance(model, TokenStack) and model.stack.causal
    if pooling is None:
        if isinstance(model.head, Classifier | TextVector | MaskedLanguageModelAndPair):
            return _known(model.head.pooling, model, name, maker)
        return "last" if reads_one_way else "mean"
    if pooling == "cls" and (reads_one_way or not maker.has_start):
        why = (
            "reads one way, and its first token sees no other" if reads_one_way else "reads texts without a start token"
        )
        raise ConfigurationError(f"--pooling cls: model={name} of this run {why}; choose mean or last")
    chosen: Pooling = next(choice for choice in choices if choice == pooling)
    return chosen


@dataclass(frozen=True)
class TextRows:
    """Tokens of each text, and how many texts were cut."""

    tokens: Ragged
    num_cut: int


class TextRowMaker:
    """A text to be continued has a start and no end; a source to be written for has neither; all others stand between
    both."""

    def __init__(self, run: FinishedRun) -> None:
        tokenizer = RunFolder.open(run.folder).read_tokenizer()
        # The tokenizer that the run kept spares a look at its data.
        self.tokenizer = _of_data(run.data) if tokenizer is None else Tokenizer.from_dict(tokenizer)
        task = target_of(RunConfig(run.config).task)
        reads_sources = "pairs_of_text" in task.data_kinds and task.head != "text_vector"
        is_source = reads_sources or isinstance(run.model, EncoderDecoder)
        self.has_start = not is_source
        self.has_end = not is_source and task.head not in NEXT_TOKEN_HEADS
        limit = RunConfig(run.config).max_length
        self.max_length = int(limit) if limit else run.data.spec().max_length

    def rows(self, texts: Sequence[str]) -> TextRows:
        for number, text in enumerate(texts):
            if not text.strip():
                raise DataError(f"text {number} is empty, and has no vector: give some words, or remove it")
        whole = self.tokenizer.encode(texts)
        room = self.max_length - self.has_start - self.has_end
        return TextRows(self._framed(whole.cut(np.full(len(whole), room))), int((whole.lengths > room).sum()))

    def _framed(self, texts: Ragged) -> Ragged:
        if not self.has_start:
            return texts
        framed = self.tokenizer.framed(texts)
        return framed if self.has_end else framed.cut(framed.lengths - 1)


def _of_data(data: DataSource) -> Tokenizer:
    if (tokenizer := tokenizer_of(data)) is None:
        raise DataError(
            "this run's data contains no text, so none can be embedded: give a run that was trained on text"
        )
    return tokenizer
