"""kill -9 at moments drawn at random, as often as it takes: the run that goes on ends as the undisturbed one.

`pytest tests/training/test_killed_anywhere.py -m slow --draws 45 -rP | grep "^killed" | sort | uniq -c` counts them.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from headtohead.records.run_folder import RunFolder, find_runs
from published_sets.corpora import write_fineweb_edu
from warm_commands import WarmCommand

pytestmark = [pytest.mark.slow, pytest.mark.process]
TINY = (
    "model.d_model=16", "model.num_heads=2", "trainer.max_steps=48", "trainer.validate_every=8", "trainer.log_every=1",
    "trainer.threads=1", "tracking=none", "trainer.progress_bar=false", "trainer.num_samples=0",
)  # fmt: skip
GRAMMAR = (
    "data.num_train=400", "data.num_validation=32", "data.num_test=32", "data.batch_size=8", "data.context_length=32",
    "model.dropout=0.1",
)  # fmt: skip
STREAM = (
    "data=fineweb_edu", "data.num_validation=20", "data.num_test=20", "data.num_learned=200", "data.tokenizer=byte",
    "data.vocab_size=null", "data.context_length=32", "data.batch_size=8", "data.lanes=4", "data.shuffle_buffer=200",
    "model.dropout=0.1",
)  # fmt: skip
FSDP = (*GRAMMAR, "trainer=fsdp", "trainer.accelerator=cpu", "model.dropout=0")


@dataclass(frozen=True)
class Kind:
    """A kind is what a run is started with."""

    overrides: tuple[str, ...]
    devices: tuple[int, ...] = (1,)
    """The number of processes; where there are several numbers, each start draws one, and sums may be rounded
    otherwise."""
    halved: bool = False
    """Whether it computes in 16-mixed, for which a CPU is given what a GPU has."""


KINDS = {
    "plain": Kind(GRAMMAR),
    "streamed": Kind(STREAM),
    "averaged weights": Kind((*GRAMMAR, "trainer.weight_averaging=0.9")),
    "accumulated": Kind((*GRAMMAR, "trainer.accumulate=2")),
    "loader processes": Kind((*GRAMMAR, "trainer.num_workers=2")),
    "16-mixed": Kind((*GRAMMAR, "precision=16-mixed"), halved=True),
    "ddp": Kind((*GRAMMAR, "trainer=ddp", "trainer.accelerator=cpu"), devices=(2,)),
    "fsdp": Kind((*FSDP, "model.dropout=0.1"), devices=(2,)),
    "fsdp, one process or two": Kind(FSDP, devices=(2, 1)),
}
IN_16_BITS = (
    "from headtohead.training import trainer; from training import scaled; trainer.Trainer = scaled.scaled_trainer"
)
MOST_KILLS = 4
"""The most kills of one run, where every kind is drawn more than once; after that it is left to run to its end."""


class Killed:
    """A run of one kind that is started, killed and resumed in a folder."""

    def __init__(self, kind: Kind, folder: Path, rng: random.Random) -> None:
        self._kind, self._folder, self._rng = kind, folder, rng
        self._cache, self._output = folder.with_suffix(".cache"), folder.with_suffix(".output")
        folder.parent.mkdir(parents=True, exist_ok=True)

    def started(self) -> WarmCommand:
        """Start the run from the beginning, or resume the run of the folder."""
        runs = find_runs(self._folder)
        own = [f"resume_from={runs[0].path}"] if runs else []
        if self._kind.overrides is STREAM:
            own.append(f"data.folder={corpus(self._folder.parent / 'corpus')}")
        own += [f"trainer.devices={self._rng.choice(self._kind.devices)}", f"output_dir={self._folder}"]
        return WarmCommand(
            ["train", *TINY, *self._kind.overrides, *own],
            output=self._output,
            environment={**os.environ, "HEADTOHEAD_CACHE": str(self._cache)},
            first=IN_16_BITS if self._kind.halved else "",
        )

    def is_killed(self, after: float) -> bool:
        """Start it, and kill it after so many seconds; not where it has ended by then."""
        command = self.started()
        try:
            command.wait(after)
        except subprocess.TimeoutExpired:
            os.killpg(command.pid, signal.SIGKILL)
            command.wait()
            return True
        return False

    def go_on(self) -> None:
        assert self.started().wait() == 0, self._output.read_text()[-2000:]


@cache
def corpus(folder: Path) -> Path:
    write_fineweb_edu(folder)
    return folder


@cache
def undisturbed(folder: Path, kind: str) -> tuple[RunFolder, float]:
    """The run, and the seconds that it took."""
    killed = Killed(KINDS[kind], folder, random.Random(1))
    began = time.monotonic()
    killed.go_on()
    return find_runs(folder)[0], time.monotonic() - began


def lines(folder: RunFolder) -> dict[tuple[int, str], float]:
    """Every line of metrics.csv but those that are times; none stands twice."""
    result = [(p.step, name, value) for p, name, value in folder.metrics_file._lines()]
    assert len({(step, name) for step, name, _ in result}) == len(result)
    return {(step, name): value for step, name, value in result if not name.startswith("throughput")}


def test_a_run_that_is_killed_anywhere_ends_as_if_it_had_not_been(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, draw_seed: int
) -> None:
    kind = list(KINDS)[draw_seed % len(KINDS)]
    position = tmp_path_factory.getbasetemp() / f"undisturbed-{list(KINDS).index(kind)}" / "runs"
    whole, seconds = undisturbed(position, kind)
    rng = random.Random(f"{kind} {draw_seed}")
    killed = Killed(KINDS[kind], tmp_path / "runs", rng)
    kills = rng.randint(1, MOST_KILLS)
    for _ in range(kills if draw_seed >= len(KINDS) else 1):
        if killed.is_killed(rng.uniform(0.3, 1.0) * seconds):
            runs = find_runs(tmp_path)
            began = runs and runs[0].metrics_file.path.exists()
            sys.stdout.write(f"killed while it {'trained' if began else 'began'}: {kind}\n")
    runs = find_runs(tmp_path)
    if not runs or runs[0].read_record().status != "finished":
        killed.go_on()
    (run,) = find_runs(tmp_path)
    assert run.read_record().status == "finished" and not run.is_live()
    if len(KINDS[kind].devices) == 1:
        assert lines(run) == lines(whole)
    else:
        assert lines(run) == pytest.approx(lines(whole), rel=1e-4, abs=1e-6)
