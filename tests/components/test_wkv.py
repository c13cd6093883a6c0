"""RWKV-4's fading mean: its gradients by hand, keys of any size, cut anywhere, exported."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headtohead.components.sequence_ops import wkv as module
from headtohead.components.sequence_ops.wkv import wkv


def drawn(length: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Draw log_decay, bonus, k, v of 2 rows and 3 channels."""
    generator = torch.Generator().manual_seed(length)
    shapes = ((3,), (3,), (2, length, 3), (2, length, 3))
    decay, bonus, k, v = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return [tensor.to(dtype).requires_grad_() for tensor in (-decay.exp(), bonus, k, v)]


def weighed_anew(
    log_decay: Tensor, bonus: Tensor, k: Tensor, v: Tensor, *, document_starts: Tensor | None = None
) -> Tensor:
    index = torch.arange(k.shape[1])
    gaps = (index[:, None] - index - 1)[..., None]
    scores = torch.where(gaps == -1, (k + bonus)[:, None], gaps * log_decay + k[:, None])
    seen = (gaps >= -1).expand(len(k), -1, -1, -1)
    if document_starts is not None:
        number = document_starts.cumsum(1)
        seen = seen & (number[:, :, None] == number[:, None, :])[..., None]
    return (scores.masked_fill(~seen, float("-inf")).softmax(2) * v[:, None]).sum(2)


@pytest.mark.parametrize("length", [1, 2, 23])
@pytest.mark.parametrize("packed", [True, False])
def test_outputs_and_gradients_are_those_of_the_weights_written_out(length: int, packed: bool) -> None:
    provided = drawn(length)
    document_starts = (torch.arange(length) % 7 == 3).expand(2, -1) if packed else None
    y, expected = (
        wkv(*provided, document_starts=document_starts)[0],
        weighed_anew(*provided, document_starts=document_starts),
    )
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    used = provided[1:] if length == 1 else provided
    gradients = torch.autograd.grad((y * weights).sum(), used)
    wished = torch.autograd.grad((expected * weights).sum(), used)
    for actual, right in zip((y, *gradients), (expected, *wished), strict=True):
        assert torch.allclose(actual, right, rtol=1e-11, atol=1e-13)


def test_keys_that_overflow_an_exponential_are_weighed_right() -> None:
    log_decay, bonus, k, v = (tensor.detach().float() for tensor in drawn(31))
    k = 300 * k
    y, _ = wkv(log_decay, bonus, k, v)
    expected = weighed_anew(*(t.double() for t in (log_decay, bonus, k, v)))
    assert torch.allclose(y.double(), expected, rtol=0, atol=1e-4)


def test_a_loud_document_does_not_drown_the_next_one() -> None:
    log_decay, bonus, k, v = (tensor.detach().float() for tensor in drawn(20))
    k[:, :10] += 500
    document_starts = (torch.arange(20) == 10).expand(2, -1)
    packed, _ = wkv(log_decay, bonus, k, v, document_starts=document_starts)
    apart, _ = wkv(log_decay, bonus, k[:, 10:], v[:, 10:])
    assert torch.equal(packed[:, 10:], apart)


def test_it_goes_on_from_what_was_read() -> None:
    log_decay, bonus, k, v = (tensor.detach() for tensor in drawn(20))
    whole, _ = wkv(log_decay, bonus, k, v)
    first, sums = wkv(log_decay, bonus, k[:, :9], v[:, :9])
    second, _ = wkv(log_decay, bonus, k[:, 9:], v[:, 9:], state=sums)
    assert torch.allclose(torch.cat((first, second), dim=1), whole, rtol=1e-12, atol=1e-14)


def test_under_autocast_it_stays_in_float32() -> None:
    provided = [tensor.detach() for tensor in drawn(20, torch.float32)]
    with torch.autocast("cpu", torch.bfloat16):
        cast, _ = wkv(*provided)
    assert torch.equal(cast, wkv(*provided)[0])


def test_what_is_exported_gives_the_same_without_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    provided = [tensor.detach() for tensor in drawn(41)]
    expected, last = wkv(*provided)
    monkeypatch.setattr(module.torch.compiler, "is_exporting", lambda: True)
    actual, end = wkv(*provided)
    assert torch.allclose(actual, expected, rtol=1e-12, atol=1e-14)
    assert torch.allclose(end.scale, last.scale, rtol=1e-12, atol=1e-12)
