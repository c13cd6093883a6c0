"""The scans under diagonal recurrences: their backward passes by hand, beyond one chunk, cut anywhere, exported."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headtohead.components.sequence_ops import scan as fused
from headtohead.components.sequence_ops.scan import CHUNK, forgetting, scan, selective_scan

LENGTHS = (1, CHUNK, CHUNK + 1, 2 * CHUNK + 7)


def plain(a: Tensor, b: Tensor, start: Tensor | None = None) -> Tensor:
    h = torch.zeros_like(b[:, 0]) if start is None else start
    states = []
    for a_t, b_t in zip(a.unbind(1), b.unbind(1), strict=True):
        h = a_t * h + b_t
        states.append(h)
    return torch.stack(states, dim=1)


def selected(length: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Draw x, step, A, B, C of 2 rows, 5 channels, 3 states."""
    generator = torch.Generator().manual_seed(length)

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64).to(dtype)

    shapes = ((2, length, 5), (2, length, 5), (5, 3), (2, length, 3), (2, length, 3))
    x, step, A, B, C = (draw(*shape) for shape in shapes)
    return [tensor.requires_grad_() for tensor in (x - 0.5, step, -4 * A, B - 0.5, C - 0.5)]


def plainly_selected(
    x: Tensor, step: Tensor, A: Tensor, B: Tensor, C: Tensor, *, document_starts: Tensor | None
) -> Tensor:
    decay = forgetting((step[..., None] * A).exp(), document_starts)
    return (plain(decay, (step * x)[..., None] * B[:, :, None]) * C[:, :, None]).sum(-1)


@pytest.mark.parametrize("has_start", [True, False])
def test_gradients_of_the_scan_are_those_of_differences(has_start: bool) -> None:
    torch.manual_seed(0)
    a, b = (torch.rand(2, 6, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    start = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)
    provided = (a, b, start) if has_start else (a, b)
    assert torch.autograd.gradcheck(scan, provided)
    assert torch.allclose(scan(*provided), plain(*provided), rtol=0, atol=1e-14)


def test_a_decay_of_zero_starts_anew() -> None:
    a, b = torch.rand(1, 9, 2, dtype=torch.float64), torch.rand(1, 9, 2, dtype=torch.float64)
    document_starts = torch.arange(9)[None] == 4
    whole = scan(forgetting(a, document_starts), b)
    assert torch.equal(whole[:, 4:], scan(a[:, 4:], b[:, 4:]))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("packed", [True, False])
def test_the_selective_scan_and_its_gradients_are_those_of_the_loop(length: int, packed: bool) -> None:
    provided = selected(length)
    document_starts = torch.arange(length) % 13 == 5 if packed else None
    document_starts = None if document_starts is None else document_starts.expand(2, -1)
    y, _ = selective_scan(*provided, document_starts=document_starts)
    expected = plainly_selected(*provided, document_starts=document_starts)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    gradients = torch.autograd.grad((y * weights).sum(), provided)
    wished = torch.autograd.grad((expected * weights).sum(), provided)
    for actual, right in zip((y, *gradients), (expected, *wished), strict=True):
        assert torch.allclose(actual, right, rtol=1e-12, atol=1e-12)


def test_the_selective_scan_goes_on_from_a_state() -> None:
    x, step, A, B, C = (tensor.detach() for tensor in selected(50))
    whole, last = selective_scan(x, step, A, B, C)
    first, state = selective_scan(x[:, :37], step[:, :37], A, B[:, :37], C[:, :37])
    second, end = selective_scan(x[:, 37:], step[:, 37:], A, B[:, 37:], C[:, 37:], state=state)
    assert torch.allclose(torch.cat((first, second), dim=1), whole, rtol=1e-12, atol=1e-14)
    assert torch.allclose(end, last, rtol=1e-12, atol=1e-14)


def test_states_are_saved_at_the_ends_of_chunks_alone() -> None:
    length = 8 * CHUNK
    saved: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        selective_scan(*selected(length))
    states = 2 * length * 5 * 3 * 8
    inputs = 2 * length * (2 * 5 + 2 * 3) * 8 + 5 * 3 * 8
    assert sum(saved.values()) == inputs + states // CHUNK


def test_under_autocast_the_selective_scan_stays_in_float32() -> None:
    provided = [tensor.detach() for tensor in selected(40, torch.float32)]
    with torch.autocast("cpu", torch.bfloat16):
        cast, _ = selective_scan(*provided)
    assert torch.equal(cast, selective_scan(*provided)[0])


@pytest.mark.slow
def test_what_is_exported_needs_no_loop_over_the_length() -> None:
    class Scans(torch.nn.Module):
        def forward(self, x: Tensor, step: Tensor, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
            return fused.selective_scan(x, step, A, B, C)[0]

    provided = tuple(tensor.detach() for tensor in selected(40))
    length = torch.export.Dim("length", min=2, max=4096)
    moving = {1: length}
    program = torch.export.export(
        Scans(), provided, dynamic_shapes=(moving, moving, None, moving, moving), strict=False
    )
    longer = tuple(tensor.detach() for tensor in selected(77))
    assert torch.allclose(program.module()(*longer), selective_scan(*longer)[0], rtol=1e-12, atol=1e-14)
