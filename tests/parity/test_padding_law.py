"""Padding, wherever it stands, is nothing: each row gives what the reference gives for its real tokens alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headtohead.architectures.architecture import Architecture
from parity.mutations import TOLERANCE, _logits, _ours, _theirs, base, write
from parity.published_models import MODELS, VOCABULARY

pytestmark = pytest.mark.shapes(False)

LENGTH = 20
SHAPES: dict[str, list[tuple[int, int]]] = {
    "on the left": [(0, 7)],
    "on the right": [(13, 20)],
    "on both sides": [(0, 3), (16, 20)],
    "between": [(4, 9)],
    "but for one token": [(0, 11), (12, 20)],
}
"""The shapes by name, where the second of two rows is padded."""
TEXTS = [kind for kind, model in MODELS.items() if model.asks != "images"]
FROM_THE_ROWS_START = {
    **dict.fromkeys(("gpt2", "bert", "distilbert", "electra", "albert", "big_bird"), "position_ids"),
    **dict.fromkeys(("bart", "mbart")),
}
"""Families whose reference counts places from the row's first token, padding or not, and what tells it otherwise."""
OWN_WAY = {
    **dict.fromkeys(("rwkv", "fnet"), "reads padding as text"),
    "longformer": "gives the first token of the row, not of the text, its sight",
}
"""Families whose reference cannot be told of padding on the left, and what it does."""
LOOKS = {"kimi_linear": 1}
"""Values that the layers of a family read whatever the padding: of a Kimi delta rule, whether its decays fit in 32
bits."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Architecture, Any]]:
    held: dict[str, tuple[Architecture, Any]] = {}

    def both(kind: str) -> tuple[Architecture, Any]:
        if kind not in held:
            folder = tmp_path_factory.mktemp(kind)
            path = write(folder / "whole", *base(kind, folder))
            ours = _ours(MODELS[kind], path)
            assert isinstance(ours, Architecture)
            held[kind] = ours, _theirs(MODELS[kind], path)
        return held[kind]

    return both


def padded(shape: str) -> tuple[Tensor, Tensor]:
    """Return two rows, the second padded with token 0, and which tokens are real."""
    valid = torch.ones(2, LENGTH, dtype=torch.bool)
    for first, end in SHAPES[shape]:
        valid[1, first:end] = False
    tokens = torch.randint(5, VOCABULARY, (2, LENGTH), generator=torch.Generator().manual_seed(1))
    return torch.where(valid, tokens, 0), valid


def here(kind: str, model: Architecture, tokens: Tensor, valid: Tensor) -> Tensor:
    target = {"decoder_tokens": tokens, "decoder_valid": valid} if MODELS[kind].asks == "pairs" else {}
    with torch.no_grad():
        logits: Tensor = model(tokens=tokens, valid=valid, **target)
    return logits


def there(kind: str, model: Any, tokens: Tensor, valid: Tensor | None = None, **more: Tensor) -> Tensor:
    options = {"input_ids": tokens, **more}
    if valid is not None and MODELS[kind].masks:
        options["attention_mask"] = valid.long()
    if MODELS[kind].first_is_global:
        options["global_attention_mask"] = (torch.arange(tokens.shape[1]) == 0).long().expand(tokens.shape)
    if MODELS[kind].asks == "pairs":
        options |= {f"decoder_{name}": held for name, held in options.items()}
    return _logits(model, options)


@pytest.mark.sampled(90)
@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", TEXTS)
def test_a_padded_row_gives_what_the_reference_gives_for_its_real_tokens(
    kind: str, shape: str, models: Callable[[str], tuple[Architecture, Any]]
) -> None:
    ours, theirs = models(kind)
    tokens, valid = padded(shape)
    together = here(kind, ours, tokens, valid)
    assert together.isfinite().all()
    for row in range(2):
        own = tokens[row : row + 1, valid[row]]
        if kind == "rwkv" and own.shape[1] == 1:  # without a cache the reference gives two tokens for one
            continue
        torch.testing.assert_close(together[row, valid[row]], there(kind, theirs, own)[0], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("kind", [kind for kind in TEXTS if kind not in OWN_WAY])
def test_a_batch_padded_on_the_left_gives_what_the_reference_gives_when_told_where_its_tokens_stand(
    kind: str, models: Callable[[str], tuple[Architecture, Any]]
) -> None:
    ours, theirs = models(kind)
    tokens, valid = padded("on the left")
    together, more = here(kind, ours, tokens, valid), {}
    if kind in FROM_THE_ROWS_START:
        name = FROM_THE_ROWS_START[kind]
        if name is None:
            assert "position_ids" not in inspect.signature(theirs.forward).parameters
            return
        assert (together - there(kind, theirs, tokens, valid))[valid].abs().max() > TOLERANCE, "it counts as we do now"
        more[name] = (valid.long().cumsum(1) - 1).clamp(min=0)
    difference = (together - there(kind, theirs, tokens, valid, **more))[valid].abs().max()
    assert difference < TOLERANCE


class Waiting(TorchDispatchMode):
    """Counts the times at which a value goes to the host, for which a GPU would have to finish first."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", TEXTS)
def test_reading_padded_rows_waits_for_no_value(kind: str, models: Callable[[str], tuple[Architecture, Any]]) -> None:
    tokens, valid = padded("on the left")
    ours = models(kind)[0]  # made before counting: making a model reads values
    with Waiting() as waiting:
        here(kind, ours, tokens, valid)
    with Waiting() as free:
        bool(valid.all())
    assert waiting.count == LOOKS.get(kind, 0) and free.count == 1
