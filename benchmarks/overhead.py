"""What the harness costs per step over a bare loop: same model, same batches, A B A B in one process.

    python benchmarks/overhead.py [--steps 1000] [--rounds 4]

A is everything that `headtohead.training.run.train` does between the first and the last step of a run: Lightning, the
meter, the logger (record on disk, every 50 steps) and the progress bar's clock. B is the same arithmetic and nothing
else: batch, forward, backward, clipping, fused AdamW. The target is at most 0.5 ms per step.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_

from headtohead.architectures.contracts import Architecture
from headtohead.architectures.decoder_only import DecoderOnly
from headtohead.components.feedforwards import DenseFeedForward
from headtohead.components.initialisations import gpt2
from headtohead.components.mixers.softmax_attention import SoftmaxAttention
from headtohead.components.norms import LayerNorm
from headtohead.components.positions.rotary import Rotary
from headtohead.components.residuals import Pre
from headtohead.data.batch import Batch
from headtohead.data.contracts import DataSource, DataSpec, Split, SplitName
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tracking.connection import TrackingSettings
from headtohead.training.data_module import StepBatch
from headtohead.training.module import TrainingModule
from headtohead.training.optimizers import adamw
from headtohead.training.parts import Identity, Parts, Settings
from headtohead.training.run import train
from headtohead.training.schedules import constant

VOCAB_SIZE, LENGTH, NUM_ROWS, BATCH_SIZE = 256, 32, 512, 8
TARGET_SECONDS = 0.5e-3


class Rows(Split):
    """Random tokens: only the time they take matters."""

    def __init__(self) -> None:
        self._tokens = torch.from_numpy(np.random.default_rng(0).integers(0, VOCAB_SIZE, (NUM_ROWS, LENGTH + 1)))

    def __len__(self) -> int:
        return len(self._tokens)

    def batch(self, rows: np.ndarray) -> Batch:
        numbers = torch.from_numpy(rows)
        return Batch(rows=numbers, tokens=self._tokens[numbers])


class Data(DataSource):
    batch_size = BATCH_SIZE

    def __init__(self) -> None:
        self._rows = Rows()

    def prepare(self) -> None:
        """Nothing to do."""

    def spec(self) -> DataSpec:
        return DataSpec(kind="language", vocab_size=VOCAB_SIZE, max_length=LENGTH)

    def split(self, name: SplitName) -> Split:
        del name
        return self._rows

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))


def make_model() -> Architecture:
    return DecoderOnly(
        64,
        2,
        2,
        mixer=SoftmaxAttention,
        position=Rotary,
        norm=LayerNorm,
        residual=Pre,
        feedforward=DenseFeedForward,
        initialisation=gpt2,
        vocab_size=VOCAB_SIZE,
        max_length=LENGTH,
    )


class Timed(Exception):
    """Ends a run once its steps are timed."""


def harness(steps: int, folder: Path) -> float:
    """Seconds per step between the first step and the last."""
    times: list[float] = []
    original = TrainingModule.training_step

    def timed(self: TrainingModule, batch: StepBatch, batch_idx: int) -> None:
        times.append(time.perf_counter())
        original(self, batch, batch_idx)

    TrainingModule.training_step = timed  # type: ignore[method-assign]
    try:
        train(
            Parts(
                make_model=make_model,
                task=CausalLanguageModelling(),
                data=Data(),
                optimizer=partial(adamw, lr=1e-3),
                schedule=constant,
                settings=Settings(max_steps=steps, accelerator="cpu", validate_every=steps, validation_batches=1),
                identity=Identity(output_dir=folder),
                tracking=TrackingSettings(mode="none"),
            )
        )
    finally:
        TrainingModule.training_step = original  # type: ignore[method-assign]
    return (times[-1] - times[0]) / (len(times) - 1)


def bare(steps: int) -> float:
    """Seconds per step of the least loop that trains the same model."""
    torch.manual_seed(0)
    model, task, rows = make_model(), CausalLanguageModelling(), Rows()
    optimizer = adamw(model, lr=1e-3)
    order = np.random.default_rng(0)
    started = 0.0
    for step in range(steps):
        if step == 0:
            started = time.perf_counter()
        batch = task.view(rows.batch(order.integers(0, NUM_ROWS, BATCH_SIZE)), seed=0, epoch=0)
        loss = task.loss(model, batch)
        (loss.total / loss.count).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return (time.perf_counter() - started) / steps


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with_harness, without = [], []
    with tempfile.TemporaryDirectory() as folder:
        bare(arguments.steps // 4)
        for _ in range(arguments.rounds):
            with_harness.append(harness(arguments.steps, Path(folder)))
            without.append(bare(arguments.steps))
    a, b = statistics.median(with_harness), statistics.median(without)
    sys.stdout.write(
        f"harness {1e3 * a:.3f} ms, bare loop {1e3 * b:.3f} ms per step (medians of {arguments.rounds} rounds)\n"
        f"overhead {1e3 * (a - b):.3f} ms per step; target at most {1e3 * TARGET_SECONDS:.1f} ms\n"
    )
    return 0 if a - b <= TARGET_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
