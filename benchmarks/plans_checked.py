"""Compare plans with training: bytes of tensors and time of a step, for twenty runs over 1, 2 and 4 processes.

    python benchmarks/plans_checked.py --write      # and put the table into docs/planning.md

Each process has one thread. The bytes are those that a meter sees operation by operation, the time is processor time of
the first process, which other programs on the machine do not lengthen.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

WORDS = ["model.num_layers=4", "model.d_model=128", "model.num_heads=4", "data.packing=stream"]
ALONE: list[list[str]] = [
    [],
    WORDS,
    [*WORDS, "data.batch_size=8", "data.context_length=512"],
    [*WORDS, "precision=bf16-mixed"],
    [*WORDS, "checkpointing=full"],
    [*WORDS, "checkpointing=attention", "optimizer=lion"],
    [*WORDS, "checkpointing=every_k", "trainer.accumulate=2"],
    [*WORDS, "model/mixer=mamba2", "model/position=none"],
    [*WORDS, "model/mixer=retention", "model/position=none", "data.batch_size=16"],
    [*WORDS, "model/mixer=lstm", "model/position=none"],
    [*WORDS, "model/feedforward=swiglu", "model/norm=rms_norm", "model.vocab_size=8192"],
    ["model=encoder_only", "task=masked_lm", "model.d_model=128", "model.num_heads=4"],
    ["model=encoder_decoder", "task=seq2seq", "data=number_words", "model.d_model=128", "model.num_heads=4"],
    ["model=vision_transformer", "task=image_classification", "data=digits", "model.d_model=128", "model.num_heads=4"],
]
SPREAD: list[list[str]] = [
    [*WORDS, "trainer=ddp", "trainer.devices=2"],
    [*WORDS, "trainer=fsdp", "trainer.devices=2"],
    [*WORDS, "trainer=fsdp", "trainer.devices=2", "trainer.reshard=false", "checkpointing=full"],
    [*WORDS, "trainer=tensor_parallel", "trainer.devices=2"],
    [*WORDS, "trainer=ddp", "trainer.devices=4"],
    [*WORDS, "trainer=fsdp", "trainer.devices=4", "trainer.shard_among=2"],
]
CASES = [*ALONE, *SPREAD]
PAGE = Path(__file__).parents[1] / "docs" / "planning.md"
BEGIN, END = "<!-- benchmarks/plans_checked.py -->", "<!-- end -->"
METERED, STEPS = 3, 12
"""Steps after the first whose bytes are metered; of the rest the time is taken."""
QUIET = [
    "trainer.accelerator=cpu", "trainer.threads=1", "trainer.validate_every=1000", "trainer.progress_bar=false",
    "trainer.num_samples=0", "trainer.validation_batches=1", "probe.at_end=false", "tracking=none",
    "data.num_train=1000", "data.num_validation=32", "data.num_test=32",
]  # fmt: skip


def overrides_of(case: int, folder: str) -> list[str]:
    """Return all that one types to train a case."""
    quiet = [word for word in QUIET if not (word.startswith("data.num") and "data=digits" in CASES[case])]
    return [*quiet, *CASES[case], f"trainer.max_steps={STEPS}", f"output_dir={folder}"]


def train_measured(case: int, folder: str) -> dict[str, float]:
    """Train a case in this process and those that it starts; return what this one measured."""
    import headtohead as h2h
    from headtohead.estimates.work_meter import TensorMeter, living_tensors
    from headtohead.training.loop.training_module import TrainingModule

    step = TrainingModule.training_step
    peaks: list[int] = []
    seconds: list[float] = []

    def measured(module: Any, batch: Any, batch_idx: int) -> None:
        if 0 < module.state.step <= METERED or module.state.step == STEPS - 1:
            gc.collect()
            with TensorMeter(living_tensors()) as meter:
                step(module, batch, batch_idx)
            peaks.append(meter.peak)
        else:
            before = time.process_time()
            step(module, batch, batch_idx)
            seconds.append(time.process_time() - before)

    TrainingModule.training_step = measured  # type: ignore[method-assign, assignment]
    try:
        h2h.train(h2h.compose("train", overrides_of(case, folder)))
    finally:
        TrainingModule.training_step = step  # type: ignore[method-assign]
    return {"bytes": max(peaks), "seconds": median(seconds[1:])}


def planned(case: int, speeds: dict[Any, Any]) -> dict[str, float]:
    """Return bytes and seconds of the case under the layout that it names."""
    from headtohead.config.compose.composition import compose_checked
    from headtohead.estimates.device_speed import measure_cpu
    from headtohead.estimates.layouts import layout_of
    from headtohead.estimates.run_planner import RunPlanner
    from headtohead.training.parallel.devices import threads

    config = compose_checked("train", overrides_of(case, "outputs"))
    runs = RunPlanner(config, "cpu")
    layout = layout_of(config)
    rows = -(-runs.batch.num_samples // layout.replicas // layout.accumulate)
    dtype = runs.precision.dtype
    if dtype not in speeds:
        with threads(1):
            speeds[dtype] = measure_cpu(dtype)
    memory, step = runs.layout_costs.memory(layout, rows), runs.layout_costs.seconds(layout, rows, speeds[dtype])
    return {"bytes": memory.total, "seconds": step.total}


def trained_apart(case: int, folder: str) -> dict[str, float]:
    """Return what the first of several processes measured."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, "--case", str(case), "--folder", folder]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    file = Path(folder) / "measured.json"
    if not file.is_file():
        raise SystemExit(f"{' '.join(CASES[case])}: {done.stderr[-2000:]}")
    result: dict[str, float] = json.loads(file.read_text())
    return result


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--case", type=int, help=argparse.SUPPRESS)
    options.add_argument("--folder", help=argparse.SUPPRESS)
    options.add_argument("--cases", help="only these numbers, with commas between them")
    options.add_argument("--write", action="store_true", help="put the table into docs/planning.md")
    typed = options.parse_args()
    if typed.case is not None:
        measured = train_measured(typed.case, typed.folder)
        if int(os.environ.get("LOCAL_RANK", "0")) == 0:
            (Path(typed.folder) / "measured.json").write_text(json.dumps(measured))
        return
    chosen = range(len(CASES)) if typed.cases is None else map(int, typed.cases.split(","))
    speeds: dict[Any, Any] = {}
    table = compared(chosen, speeds)
    if typed.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END, 1)[1]
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


def compared(chosen: Iterable[int], speeds: dict[Any, Any]) -> str:
    """Return the table of these cases, of which each line is printed when it is known."""
    from headtohead.components.processor import cpu_name

    lines = [
        "| run | MB planned | MB seen | ratio | ms planned | ms seen | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    by_bytes, by_time = [], []
    for case in chosen:
        with tempfile.TemporaryDirectory() as folder:
            seen = train_measured(case, folder) if case < len(ALONE) else trained_apart(case, folder)
        plan = planned(case, speeds)
        by_bytes.append(plan["bytes"] / seen["bytes"])
        by_time.append(plan["seconds"] / seen["seconds"])
        words = " ".join("..." if word == WORDS[0] else word for word in CASES[case] if word not in WORDS[1:])
        lines.append(
            f"| `{words or 'as it is'}` | {plan['bytes'] / 1e6:.1f} | {seen['bytes'] / 1e6:.1f} | {by_bytes[-1]:.3f} | "
            f"{plan['seconds'] * 1e3:.0f} | {seen['seconds'] * 1e3:.0f} | {by_time[-1]:.2f} |"
        )
        print(lines[-1], flush=True)
    worst = max(abs(ratio - 1) for ratio in by_bytes)
    verdict = (
        f"Bytes within {worst:.1%}; the median of {len(by_time)} ratios of time is {median(by_time):.2f}. "
        f"{cpu_name()}, one thread for each process, {time.strftime('%B %Y')}; `...` is `{' '.join(WORDS)}`."
    )
    print(verdict)
    return "\n".join([*lines, "", *textwrap.wrap(verdict, 120)])


if __name__ == "__main__":
    main()
