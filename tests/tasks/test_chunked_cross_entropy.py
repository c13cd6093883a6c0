"""The chunked loss against torch's own, in value, gradient and memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from headtohead.data.batches.batch import IGNORED
from headtohead.estimates.work_meter import TensorMeter, living_tensors
from headtohead.tasks import chunked_cross_entropy
from headtohead.tasks.chunked_cross_entropy import Workspace, cross_entropy_sum, score

ROWS, WIDTH, VOCAB = 37, 8, 53


def problem(dtype: torch.dtype = torch.float64, *, bias: bool = True) -> tuple[list[Tensor], Tensor]:
    """Return features, weight and perhaps bias as leaves; targets with some ignored."""
    generator = torch.Generator().manual_seed(3)
    shapes = [(ROWS, WIDTH), (VOCAB, WIDTH), *([(VOCAB,)] if bias else [])]
    leaves = [torch.randn(s, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes]
    targets = torch.randint(0, VOCAB, (ROWS,), generator=generator)
    targets[[0, 5, 36]] = IGNORED
    return leaves, targets


def chunked(
    leaves: list[Tensor], targets: Tensor, *, rows: int, smoothing: float = 0.0, cap: float | None = None
) -> Tensor:
    bias = leaves[2] if len(leaves) == 3 else None
    options: dict[str, Any] = {"label_smoothing": smoothing, "cap": cap}
    return cross_entropy_sum(leaves[0], leaves[1], bias, targets, workspace=Workspace(rows * VOCAB), **options)


def plain(leaves: list[Tensor], targets: Tensor, *, smoothing: float = 0.0, cap: float | None = None) -> Tensor:
    logits = F.linear(leaves[0], leaves[1], leaves[2] if len(leaves) == 3 else None)
    if cap is not None:
        logits = cap * torch.tanh(logits / cap)
    return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)


@pytest.mark.parametrize("rows", [1, 5, 37, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
def test_equals_torch_in_float64_value_and_gradients(rows: int, smoothing: float, bias: bool) -> None:
    leaves, targets = problem(bias=bias)
    ours, theirs = chunked(leaves, targets, rows=rows, smoothing=smoothing), plain(leaves, targets, smoothing=smoothing)
    assert abs(ours - theirs) < 1e-10
    for mine, reference in zip(
        torch.autograd.grad(ours * 2.5, leaves), torch.autograd.grad(theirs * 2.5, leaves), strict=True
    ):
        assert (mine - reference).abs().max() < 1e-10


@pytest.mark.parametrize("rows", [1, 5, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
def test_capped_logits_have_the_loss_and_gradients_that_torch_gives_them(
    rows: int, smoothing: float, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(chunked_cross_entropy.CACHED_ELEMENTS, "cpu", 3 * VOCAB)  # several parts to a chunk
    leaves, targets = problem(bias=bias)
    options: dict[str, Any] = {"smoothing": smoothing, "cap": 1.5}
    ours, theirs = chunked(leaves, targets, rows=rows, **options), plain(leaves, targets, **options)
    assert abs(ours - theirs) < 1e-10 and abs(ours - plain(leaves, targets, smoothing=smoothing)) > 1
    for mine, reference in zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, leaves), strict=True):
        assert (mine - reference).abs().max() < 1e-10


def test_equals_torch_in_float32_to_rounding() -> None:
    leaves, targets = problem(torch.float32)
    ours, theirs = chunked(leaves, targets, rows=6), plain(leaves, targets)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-5)
    for mine, reference in zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, leaves), strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-5, atol=1e-5)


@pytest.fixture(params=[True, False], ids=["with bf16 units", "without bf16 units"])
def units(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Test both ways of a processor: products in bf16, or in float32 because it has no units for bf16."""
    monkeypatch.setattr(chunked_cross_entropy, "_has_units", lambda _: request.param)


@pytest.mark.usefixtures("units")
@pytest.mark.parametrize("cap", [None, 3.0])
def test_bf16_autocast_is_no_further_from_the_truth_than_torch_is(cap: float | None) -> None:
    leaves, targets = problem(torch.float32)
    exact = torch.autograd.grad(plain(leaves, targets, cap=cap), leaves)
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = chunked(leaves, targets, rows=6, cap=cap), plain(leaves, targets, cap=cap)
    assert ours.dtype == torch.float32
    mine, reference = torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, leaves)
    for a, b, truth in zip(mine, reference, exact, strict=True):
        assert a.dtype == torch.float32
        assert (a - truth).norm() < 1.5 * (b - truth).norm() + 1e-6
        assert (a - truth).norm() < 0.02 * truth.norm()


@pytest.mark.usefixtures("units")
def test_bf16_weights_give_bf16_gradients() -> None:
    leaves, targets = problem(torch.bfloat16)
    gradients = torch.autograd.grad(chunked(leaves, targets, rows=6), leaves)
    assert {gradient.dtype for gradient in gradients} == {torch.bfloat16}


def test_autocast_leaves_float64_alone() -> None:
    leaves, targets = problem()
    with torch.autocast("cpu", torch.bfloat16):
        ours = chunked(leaves, targets, rows=6)
    assert abs(ours - plain(leaves, targets)) < 1e-10


def test_tied_weights_gather_both_gradients() -> None:
    weight = nn.Parameter(torch.randn(VOCAB, WIDTH, dtype=torch.float64))
    tokens, targets = torch.randint(0, VOCAB, (ROWS,)), torch.randint(0, VOCAB, (ROWS,))
    features = F.embedding(tokens, weight).tanh()
    (ours,) = torch.autograd.grad(chunked([features, weight], targets, rows=9), weight, retain_graph=True)
    (theirs,) = torch.autograd.grad(plain([features, weight], targets), weight)
    assert (ours - theirs).abs().max() < 1e-10


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_is_frozen_gets_no_gradient_and_the_rest_is_unchanged(frozen: int) -> None:
    leaves, targets = problem()
    chunked(leaves, targets, rows=6).backward()
    expected = [leaf.grad for leaf in leaves]
    partly = [leaf.detach().clone().requires_grad_(index != frozen) for index, leaf in enumerate(leaves)]
    chunked(partly, targets, rows=6).backward()
    assert partly[frozen].grad is None
    for index, leaf in enumerate(partly):
        if index != frozen:
            assert torch.equal(leaf.grad, expected[index])


def test_rows_that_are_all_ignored_or_missing_cost_nothing() -> None:
    leaves, targets = problem()
    for features, expected in ((leaves[0], torch.full_like(targets, IGNORED)), (leaves[0][:0], targets[:0])):
        loss = chunked([features, *leaves[1:]], expected, rows=6)
        assert loss == 0
        for gradient in torch.autograd.grad(loss, leaves[1:]):
            assert gradient.abs().max() == 0


def test_a_second_backward_is_refused_rather_than_scaled_twice() -> None:
    leaves, targets = problem()
    loss = chunked(leaves, targets, rows=6)
    loss.backward(torch.tensor(2.0, dtype=torch.float64), retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("cap", [None, 1.5])
def test_scores_equal_those_of_whole_logits(cap: float | None) -> None:
    leaves, targets = problem()
    logits = F.linear(*leaves)
    scores = score(leaves[0], leaves[1], leaves[2], targets, cap=cap, workspace=Workspace(chunk_elements=7 * VOCAB))
    saved = targets != IGNORED
    assert abs(scores.loss - plain(leaves, targets, cap=cap)) < 1e-10
    assert scores.correct == ((logits.argmax(1) == targets) & saved).sum()
    assert scores.count == saved.sum() == ROWS - 3


class LargestTensor(TorchDispatchMode):
    """Remembers the largest tensor of sums' precision that any operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.float32 = self.any = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, Tensor):
                self.any = max(self.any, tensor.numel())
                self.float32 = max(self.float32, tensor.numel() if tensor.dtype == torch.float32 else 0)
        return out


@pytest.mark.usefixtures("units")
@pytest.mark.parametrize("cap", [None, 1.5])
@pytest.mark.parametrize("autocast", [False, True])
def test_no_tensor_holds_the_logits_of_more_than_one_chunk(autocast: bool, cap: float | None) -> None:
    rows, width, vocab, chunk = 4096, 4, 1000, 2**16
    features = torch.randn(rows, width, requires_grad=True)
    weight = torch.randn(vocab, width, requires_grad=True)
    targets = torch.randint(0, vocab, (rows,))
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), LargestTensor() as ours:
        cross_entropy_sum(features, weight, None, targets, cap=cap, workspace=Workspace(chunk)).backward()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), LargestTensor() as theirs:
        F.cross_entropy(F.linear(features, weight), targets).backward()
    assert theirs.float32 == rows * vocab
    assert ours.any <= chunk


def test_buffers_are_reused_from_chunk_to_chunk_and_from_call_to_call() -> None:
    workspace = Workspace(chunk_elements=5 * VOCAB)
    leaves, targets = problem(bias=False)
    cross_entropy_sum(leaves[0], leaves[1], None, targets, workspace=workspace)
    before = {key: buffer.data_ptr() for key, buffer in workspace._buffers.items()}
    cross_entropy_sum(leaves[0], leaves[1], None, targets, workspace=workspace)
    assert before == {key: buffer.data_ptr() for key, buffer in workspace._buffers.items()}
    assert sum(buffer.numel() for buffer in workspace._buffers.values()) <= 5 * VOCAB


def test_chunks_are_evened_out() -> None:
    assert Workspace(chunk_elements=10 * VOCAB).chunk_rows(21, VOCAB, torch.device("cpu")) == 7
    assert Workspace(chunk_elements=1).chunk_rows(21, VOCAB, torch.device("cpu")) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocab", [53, 50257])
def test_equals_torch_on_an_accelerator(dtype: torch.dtype, vocab: int) -> None:
    features = torch.randn(300, 64, device="cuda", dtype=dtype, requires_grad=True)
    weight = torch.randn(vocab, 64, device="cuda", dtype=dtype, requires_grad=True)
    targets = torch.randint(0, vocab, (300,), device="cuda")
    targets[:7] = IGNORED
    ours = cross_entropy_sum(features, weight, None, targets, workspace=Workspace(chunk_elements=100 * vocab))
    exact = F.cross_entropy(F.linear(features.double(), weight.double()), targets, reduction="sum")
    tolerance = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 3e-2}[dtype]
    assert abs(ours - exact) < tolerance * abs(exact)
    for mine, truth in zip(
        torch.autograd.grad(ours, (features, weight)), torch.autograd.grad(exact, (features, weight)), strict=True
    ):
        assert (mine.double() - truth.double()).norm() < tolerance * truth.double().norm()


@pytest.mark.slow
def test_a_buffer_that_grows_is_never_there_twice() -> None:
    workspace, like = Workspace(), torch.empty(0)
    workspace.take("product", (1000,), like, torch.float32)
    with TensorMeter(living_tensors()) as meter:
        before = meter.bytes()
        workspace.take("product", (1010,), like, torch.float32)
    assert meter.peak < before + 1000
