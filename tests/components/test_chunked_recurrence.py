"""The recurrence in chunks, whatever its decays, against the loop over tokens: beyond one chunk, cut, in float32."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headtohead.components.sequence_ops import chunked_recurrence
from headtohead.components.sequence_ops.chunked_recurrence import recur, recur_once, saved_elements
from headtohead.components.sequence_ops.decays import fits_in_float32
from headtohead.diagnostics.peers.peer_measurement import peak_bytes

CHUNK = 8
LENGTHS = (1, CHUNK, CHUNK + 1, 3 * CHUNK + 5)
KINDS = (
    *("decay of each channel", "delta rule", "delta rule with writes of its own", "mild decay of each channel"),
    *("delta rule with any decay of each channel", "delta rule with any decays and writes of its own"),
)


def drawn(kind: str, length: int, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Draw 2 rows, 3 heads, keys of 4 channels and values of 5."""
    torch.manual_seed(length)

    def draw(width: int) -> Tensor:
        return torch.randn(2, 3, length, width, dtype=torch.float64)

    unit = F.normalize(draw(4), dim=-1)
    parts = {"q": draw(4), "k": draw(4), "v": draw(5), "state": torch.randn(2, 3, 4, 5, dtype=torch.float64)}
    if kind == KINDS[0]:
        parts["log_decay"] = -3 * draw(4).abs()
        parts["log_decay"][:, :, length // 2] -= 500  # as good as forgotten
    elif kind == KINDS[3]:
        parts["log_decay"] = -0.1 * draw(4).abs()
    elif kind == KINDS[1]:
        parts |= {"k": unit, "reads": -unit * draw(1).sigmoid(), "log_decay": -9 * draw(1).abs()}
    elif kind in KINDS[4:]:
        parts |= {"reads": -unit, "log_decay": -3 * draw(4).abs()}
        parts["log_decay"][:, :, length // 2] -= 500
        parts |= {"k": unit} if kind == KINDS[4] else {"writes": unit * draw(4).sigmoid()}
    else:
        parts |= {"reads": -unit, "writes": unit * draw(4).sigmoid(), "log_decay": -0.6 * draw(4).sigmoid()}
    return {name: part.to(dtype).requires_grad_() for name, part in parts.items()}


def by_tokens(parts: dict[str, Tensor], starts: Tensor | None = None) -> tuple[Tensor, Tensor]:
    state, outputs = parts["state"], []
    for token in range(parts["q"].shape[2]):
        now = {name: part[:, :, token : token + 1] for name, part in parts.items() if name != "state"}
        if starts is not None:
            state = state * ~starts[:, token, None, None, None]
        y, state = recur_once(**now, state=state)
        outputs.append(y)
    return torch.cat(outputs, dim=2), state


def with_gradients(y: Tensor, state: Tensor, parts: dict[str, Tensor]) -> list[Tensor]:
    loss = sum((x * torch.linspace(-1, 2, x.numel(), dtype=x.dtype).view_as(x)).sum() for x in (y, state))
    assert isinstance(loss, Tensor)
    return [y, state, *torch.autograd.grad(loss, list(parts.values()))]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_chunks_and_their_gradients_are_those_of_tokens(kind: str, length: int, packed: bool) -> None:
    parts = drawn(kind, length)
    starts = (torch.arange(length) % 5 == torch.tensor([[3], [0]])) if packed else None
    result = with_gradients(*recur(**parts, starts=starts, chunk_size=CHUNK), parts)
    for actual, expected in zip(result, with_gradients(*by_tokens(parts, starts), parts), strict=True):
        assert torch.allclose(actual, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_carries_all_that_was_read(kind: str) -> None:
    parts = {name: part.detach() for name, part in drawn(kind, 29).items()}
    whole, last = recur(**parts, chunk_size=CHUNK)
    pieces, state = [], parts.pop("state")
    for start, end in ((0, 11), (11, 12), (12, 29)):
        piece = {name: part[:, :, start:end] for name, part in parts.items()}
        y, state = recur(**piece, state=state, chunk_size=CHUNK)
        pieces.append(y)
    assert torch.allclose(torch.cat(pieces, dim=2), whole, rtol=1e-10, atol=1e-12)
    assert torch.allclose(state, last, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_in_float32_nothing_overflows_and_gradients_keep_four_digits(kind: str) -> None:
    """Decays may have any strength whose sums over the longest chunk retain four digits."""
    exact, single = drawn(kind, 300), drawn(kind, 300, torch.float32)
    result = with_gradients(*recur(**single, chunk_size=128), single)
    for actual, expected in zip(result, with_gradients(*recur(**exact, chunk_size=128), exact), strict=True):
        unit = float(expected.detach().abs().max())
        assert float((actual.detach() - expected.detach()).abs().max()) <= 1e-4 * unit


def test_what_comes_out_under_autocast_is_what_comes_out_without() -> None:
    parts = {name: part.detach() for name, part in drawn(KINDS[1], 20, torch.float32).items()}
    with torch.autocast("cpu", torch.bfloat16):
        cast, _ = recur(**parts, chunk_size=CHUNK)
    assert torch.equal(cast, recur(**parts, chunk_size=CHUNK)[0])


@pytest.mark.parametrize("saves_solutions", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_segments_are_read_one_after_the_other_and_made_again_for_gradients(
    kind: str, saves_solutions: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    length = 2 * 16 + 5
    parts, starts = drawn(kind, length), torch.arange(length) % 11 == torch.tensor([[3], [0]])
    expected = with_gradients(*by_tokens(parts, starts), parts)
    monkeypatch.setattr(chunked_recurrence, "SEGMENT", 16)
    monkeypatch.setattr(chunked_recurrence, "SOLUTIONS_SAVED", length if saves_solutions else 0)
    result = with_gradients(*recur(**parts, starts=starts, chunk_size=CHUNK), parts)
    for actual, one in zip(result, expected, strict=True):
        assert torch.allclose(actual, one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("length", [8 * CHUNK, 520, 1025])
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[1], KINDS[2]])
def test_autograd_saves_inputs_in_their_format_and_states_between_segments_alone(
    kind: str, length: int, dtype: torch.dtype
) -> None:
    saved, parts = {}, drawn(kind, length, dtype)

    def pack(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        recur(**parts, chunk_size=CHUNK)
    inputs = sum(part.untyped_storage().nbytes() for name, part in parts.items() if name != "state")
    solved = 4 + 5 if "reads" in parts else 0
    made = saved_elements(length, CHUNK, memory=2 * 3 * 4 * 5, solved=2 * 3 * solved)
    assert sum(saved.values()) == inputs + max(4, dtype.itemsize) * made


@pytest.mark.slow
def test_long_rows_hold_few_times_the_memory_of_their_tokens() -> None:
    """Counted at once, forward and backward, by tensors as large as the queries."""
    length, width = 2048, 16
    rows = {name: torch.randn(1, 1, length, width) for name in ("q", "k", "v", "reads", "writes")}
    parts = {**rows, "log_decay": torch.full((1, 1, length, width), -0.1)}
    leaves = {name: part.mul(width**-0.5).requires_grad_() for name, part in parts.items()}

    def work() -> None:
        recur(**leaves, chunk_size=16)[0].sum().backward()

    assert peak_bytes(work) <= 9 * length * width * 4  # six gradients, the output and its gradient, and a segment's


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_exported_needs_no_loop_over_the_length(kind: str) -> None:
    class Recurs(torch.nn.Module):
        def forward(self, parts: dict[str, Tensor]) -> Tensor:
            return recur(**parts, chunk_size=CHUNK)[0]

    parts, longer = ({name: part.detach() for name, part in drawn(kind, length).items()} for length in (20, 37))
    length = torch.export.Dim("length", min=2, max=4096)
    moving = {"parts": {name: None if name == "state" else {2: length} for name in parts}}
    program = torch.export.export(Recurs(), (parts,), dynamic_shapes=moving, strict=False)
    assert torch.allclose(program.module()(longer), recur(**longer, chunk_size=CHUNK)[0], rtol=1e-10, atol=1e-12)


def test_only_mild_decays_are_undone_by_their_inverse() -> None:
    sums = torch.tensor([[[-1.0, -2.0], [-3.0, -59.0]]])
    mild = torch.tensor([[[-1.0, -2.0], [-2.0, -1.9]]])
    assert (
        fits_in_float32(mild, sums) and not fits_in_float32(mild, sums - 2.0) and not fits_in_float32(mild - 0.1, sums)
    )
    assert fits_in_float32(torch.empty(1, 2, 2, device="meta"), torch.empty(1, 2, 2, device="meta"))
