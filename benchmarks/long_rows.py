"""Train one step on a row of 131,072 tokens, recomputed and with the loss in chunks: bytes planned and seen, by mixer.

    python benchmarks/long_rows.py                # every mixer that reads in linear time, each in a process of its own
    python benchmarks/long_rows.py mamba2 s4d     # only these

The logits alone would be 4.3 GB. The bytes are those that a meter sees operation by operation, beside the peak of the
process; the seconds are processor time. Numbers of a table are in docs/planning.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

MIXERS = (
    "mamba", "mamba2", "mamba3", "gated_delta", "kimi_delta", "delta_product", "gated_linear", "linear_attention",
    "retention", "lightning_attention", "rwkv6", "rwkv7", "hgrn2", "mlstm", "min_gru", "min_lstm", "rg_lru", "s4d",
    "hyena", "short_conv", "sliding_window",
)  # fmt: skip
LENGTH, VOCABULARY = 131_072, 8192


def overrides_of(mixer: str, length: int) -> list[str]:
    """Return all that one types to train on such rows."""
    return [
        f"model/mixer={mixer}", "model/position=none", f"model.vocab_size={VOCABULARY}", "model.num_layers=2",
        f"data.context_length={length}", "data.packing=stream", "data.batch_size=1", "checkpointing=full",
        "trainer.accelerator=cpu", "trainer.threads=2", "trainer.max_steps=1", "tracking=none",
    ]  # fmt: skip


def measured(mixer: str, length: int) -> dict[str, float]:
    """Return what the plan says of a step of this mixer, and what a step shows."""
    import headtohead as h2h
    from headtohead.config.compose.composition import compose_checked
    from headtohead.estimates.layouts import layout_of
    from headtohead.estimates.run_planner import RunPlanner
    from headtohead.estimates.step_times import TimedModel
    from headtohead.estimates.work_meter import TensorMeter, living_tensors
    from headtohead.training.memory import PeakMemory
    from headtohead.training.parallel.devices import threads

    config = compose_checked("train", overrides_of(mixer, length))
    started = time.process_time()
    inspected = h2h.inspect(config)
    inspecting, started = time.process_time() - started, time.process_time()
    planned = RunPlanner(config, "cpu").layout_costs.memory(layout_of(config), 1).total
    planning = time.process_time() - started
    with threads(2):
        before = living_tensors()
        trained = TimedModel(config)
        peak = PeakMemory(trained.device)
        with TensorMeter(living_tensors(), ignored=before) as meter:
            started = time.process_time()
            trained.train(1)
            stepping = time.process_time() - started
    assert inspected.ledger.totals.parameters > 0
    return {
        "inspecting": inspecting,
        "planning": planning,
        "stepping": stepping,
        "planned": planned,
        "metered": meter.peak,
        "process": peak.read(),
    }


def measured_apart(mixer: str, length: int) -> dict[str, float] | str:
    """Return what another process measured, or its last words."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, "--here", mixer, f"--length={length}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return next((line for line in reversed(done.stderr.splitlines()) if line.strip()), f"code {done.returncode}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("mixers", nargs="*", default=list(MIXERS))
    options.add_argument("--length", type=int, default=LENGTH)
    options.add_argument("--here", help=argparse.SUPPRESS)
    typed = options.parse_args()
    if typed.here:
        print(json.dumps(measured(typed.here, typed.length)))
        return
    print("| mixer | planned GB | seen GB | ratio | process GB | inspect s | plan s | step s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for mixer in typed.mixers:
        seen = measured_apart(mixer, typed.length)
        if isinstance(seen, str):
            print(f"| {mixer} | {seen} |", flush=True)
            continue
        sizes = " | ".join(f"{seen[name] / 1e9:.2f}" for name in ("planned", "metered"))
        seconds = " | ".join(f"{seen[name]:.1f}" for name in ("inspecting", "planning", "stepping"))
        ratio = seen["planned"] / seen["metered"]
        print(f"| {mixer} | {sizes} | {ratio:.2f} | {seen['process'] / 1e9:.2f} | {seconds} |", flush=True)


if __name__ == "__main__":
    main()
