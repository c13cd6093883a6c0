"""Speed that does not flake: kernels and bytes are counted; peers and we do the same work; rows become a page."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from torch import nn

from headtohead.cli import main
from headtohead.components.component import Context
from headtohead.components.mixers.recurrent.torch_recurrence import Gru
from headtohead.components.norms import RmsNorm
from headtohead.diagnostics.peers import layer_peers, our_models, peer_measurement
from headtohead.diagnostics.peers.alternation import Pair, PeerComparison, Quartiles, alternate
from headtohead.diagnostics.peers.peer_measurement import (
    AllocationCounter,
    SpeedRow,
    measure_peers,
    peak_bytes,
    rows_of,
    save_rows,
)
from headtohead.diagnostics.peers.training_peers import PlainGpt

ROOT = Path(__file__).parents[2]
MB = 2**20


def counted(work: object) -> AllocationCounter:
    """Count what some work launches and allocates once it has run before."""
    assert callable(work)
    work()
    with AllocationCounter() as counter:
        work()
    return counter


def test_the_counter_sees_kernels_new_memory_and_what_is_held_at_most() -> None:
    x = torch.zeros(256, 1024)
    with AllocationCounter() as counter:
        y = x + 1  # one kernel, one MiB
        z = (y * 2).view(-1).add_(1)  # two kernels, one MiB; a view launches nothing
        del y
        z = z * 3  # one kernel, one MiB, while one MiB is held
        del z
    assert (counter.kernels, counter.allocated, counter.peak, counter.held) == (4, 3 * MB, 2 * MB, 0)


STEPS = {512: (280, 37 * MB), 8192: (294, 60 * MB)}
"""The kernels that a training step of the small decoder launches, and the bytes that it allocates, rounded up: more of
either is slower."""


@pytest.mark.slow
@pytest.mark.parametrize("vocab_size", STEPS)
def test_a_training_step_launches_and_allocates_no_more_than_it_did(vocab_size: int) -> None:
    model = our_models.decoder(vocab_size, 64)
    tokens = torch.zeros(2, 64, dtype=torch.long)
    step = our_models.our_step(model, our_models.token_loss(model, {"tokens": tokens}, tokens), half=False)
    counter = counted(step)
    most_kernels, most_bytes = STEPS[vocab_size]
    assert counter.kernels <= most_kernels
    assert counter.allocated <= most_bytes


WRITING = {"learned": 54, "rotary": 64}
"""The kernels that one written token launches; rotations of all positions are made once."""


@pytest.mark.parametrize("position", WRITING)
def test_a_written_token_launches_no_more_kernels_than_it_did(position: str) -> None:
    model = our_models.decoder(512, 64, position).eval()
    token = torch.zeros(1, 1, dtype=torch.long)
    with torch.inference_mode():
        _, state = model.prefill(token.expand(1, 8), None, room=8, bos_id=0)
        assert counted(lambda: model.decode_step(token, state)).kernels <= WRITING[position]


@pytest.mark.slow
def test_the_loss_of_a_large_vocabulary_holds_less_than_its_logits() -> None:
    rows, vocab_size = 2048, 20_000
    model = our_models.decoder(vocab_size, 1024)
    tokens = torch.zeros(2, 1024, dtype=torch.long)
    with torch.no_grad():
        features = model.features(tokens=tokens).detach()
    features.requires_grad_()
    loss = our_models.token_loss(model, {"tokens": tokens}, tokens)
    model.features = lambda **_: features  # type: ignore[method-assign]
    held = counted(lambda: loss().backward()).peak
    weights_and_gradients = 3 * vocab_size * our_models.WIDTH * 4
    assert held - weights_and_gradients < rows * vocab_size * 4


def test_layers_launch_no_more_kernels_than_they_did() -> None:
    x = torch.randn(2, 16, 8, requires_grad=True)
    norm, gru = RmsNorm(8), Gru(8, num_heads=1, causal=True)
    of_norm = counted(lambda: norm(x, Context()).sum().backward()).kernels
    of_gru = counted(lambda: gru(x, Context(causal=True)).sum().backward()).kernels
    of_performer = counted(layer_peers.mixing(layer_peers.performer, 512).ours)
    assert of_norm <= 18
    assert of_performer.kernels <= 77
    assert of_performer.allocated <= 81 * MB
    assert of_gru <= 210, "ten small kernels and two products a token"


@pytest.mark.slow
def test_work_of_half_the_size_takes_less_time_than_the_whole() -> None:
    a = torch.randn(400, 400)
    times = alternate(lambda: a @ a, lambda: [a @ a for _ in range(8)], rounds=3, seconds=10)
    assert len(times.ours) == 3
    assert times.ratios.median > 1


def test_nanogpt_s_model_has_the_weights_of_ours_and_computes_the_same_loss() -> None:
    ours = our_models.decoder(64, 8, "learned")
    theirs = PlainGpt(width=our_models.WIDTH, num_layers=4, num_heads=4, vocab_size=64, max_length=8)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    tokens = torch.randint(0, 64, (2, 8))
    uniform = torch.tensor(64.0).log()
    assert abs(theirs(tokens, tokens) - uniform) < 0.5


def test_a_missing_peer_is_left_out_and_said_so() -> None:
    lines: list[str] = []
    absent = PeerComparison("none", "some work", "nobody", 1.0, lambda: Pair(int, int), package="no_such_package")
    assert list(measure_peers([absent], rounds=1, report=lines.append)) == []
    assert "no_such_package" in lines[0]


@pytest.mark.slow
def test_a_target_that_is_missed_names_the_kernels_that_the_time_goes_into() -> None:
    a = torch.randn(300, 300)
    slow = PeerComparison("none", "two products", "one", 1.5, lambda: Pair(lambda: a @ a @ a, lambda: a @ a))
    (row,) = measure_peers([slow], rounds=3, report=lambda _: None)
    assert not row.is_met
    assert "mm" in row.missing


def test_memory_is_compared_by_what_tensors_hold() -> None:
    pair = layer_peers.mixing(layer_peers.gated_delta, 64)
    assert peak_bytes(pair.ours) > peak_bytes(pair.theirs) > 64 * layer_peers.D_MODEL * 4


def test_rows_of_benchmarks_are_updated_by_their_work_and_become_a_page(tmp_path: Path) -> None:
    met = SpeedRow("generate", Quartiles(1.9, 2.0, 2.1), target=1.5)
    missed = SpeedRow("start", Quartiles(5.0, 5.1, 5.2), target=4.2, unit="s", better="lower", missing="imports")
    save_rows("one", [met, SpeedRow("start", Quartiles.of([9.0]), target=4.2)], tmp_path)
    path = save_rows("one", [missed], tmp_path)
    assert rows_of(path) == [met, missed]
    spec = importlib.util.spec_from_file_location("speed_page", ROOT / "benchmarks/speed_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.page(rows_of(path))
    assert "| generate | ≥ 1.50 | **2.00** (1.90 to 2.10) | yes |" in page
    assert "| start | ≤ 4.2 s | **5.1 s** (5 s to 5.2 s) | no |" in page
    assert "- **start**: imports" in page
    assert [module.figure(memory, "MB") for memory in (999.4, 999.6, 1234.5)] == ["999 MB", "1,000 MB", "1,234 MB"]


def test_the_command_measures_a_group_and_refuses_what_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    layer = nn.Linear(8, 8)
    x = torch.randn(4, 8)
    small = PeerComparison("small", "a layer", "itself", 0.01, lambda: Pair(lambda: layer(x), lambda: layer(x)))
    monkeypatch.setattr(peer_measurement, "all_comparisons", lambda: [small])
    assert main(["bench", "--peers", "small", "--rounds", "3"]) == 0
    assert "a layer" in capsys.readouterr().out
    assert [row.work for row in rows_of(tmp_path / "outputs/bench/peers.rows.json")] == ["a layer"]
    assert main(["bench", "--peers", "nonsense"]) == 2
    assert "small" in capsys.readouterr().err
