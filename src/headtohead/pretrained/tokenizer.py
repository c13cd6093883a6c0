"""A checkpoint's own tokenizer, from its tokenizer.json: the same text becomes the same numbers as in its training."""

from __future__ import annotations

from headtohead.data.contracts import DataError
from headtohead.data.tokenizers.published import FILE, FILES_OF_NAMES, published_tokenizer
from headtohead.data.tokenizers.tokenizer import Tokenizer
from headtohead.pretrained.checkpoint import Checkpoint
from headtohead.pretrained.tensors import CheckpointError


def tokenizer_of(checkpoint: Checkpoint) -> Tokenizer | None:
    """None where it has none that is told in one file."""
    path = checkpoint.folder / FILE
    if not path.is_file():
        return None
    named = {key: value for file in FILES_OF_NAMES for key, value in (checkpoint.json(file) or {}).items()}
    try:
        return published_tokenizer(
            path.read_text(encoding="utf-8"),
            named=named,
            config=checkpoint.config,
            origin=f"init_from={checkpoint.origin}",
        )
    except DataError as error:
        raise CheckpointError(str(error)) from None
