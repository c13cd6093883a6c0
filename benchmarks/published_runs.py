"""Plan runs that others have published, and compare device hours with their reports.

python benchmarks/published_runs.py
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from headtohead.config.compose.composition import compose_checked
from headtohead.estimates.device_speed import speed_of
from headtohead.estimates.layouts import Layout
from headtohead.estimates.run_planner import RunPlanner
from headtohead.training.parallel.device_sheets import device_sheets

GPT2 = ["model/size=gpt2_small", "model.vocab_size=50257", "data.context_length=1024", "data.batch_size=512"]
LLAMA = ["model/norm=rms_norm", "model/feedforward=swiglu", "model.tie_weights=false", "model.mixer.bias=false"]
LLAMA_7B = [
    *LLAMA, "model.d_model=4096", "model.num_layers=32", "model.num_heads=32", "model.vocab_size=32000",
    "model.feedforward.two_thirds=false", "model.feedforward.multiple=2.6875", "data.context_length=4096",
    "data.batch_size=1024",
]  # fmt: skip
LLAMA_70B = [
    *LLAMA, "model.d_model=8192", "model.num_layers=80", "model.num_heads=64", "model.mixer.num_kv_heads=8",
    "model.vocab_size=32000", "model.feedforward.two_thirds=false", "model.feedforward.multiple=3.5",
    "data.context_length=4096", "data.batch_size=1024",
]  # fmt: skip
LLAMA3_8B = [
    *LLAMA, "model.d_model=4096", "model.num_layers=32", "model.num_heads=32", "model.mixer.num_kv_heads=8",
    "model.vocab_size=128256", "model.feedforward.two_thirds=false", "model.feedforward.multiple=3.5",
    "data.context_length=8192", "data.batch_size=1024",
]  # fmt: skip
LLAMA3_70B = [*LLAMA_70B[:-2], "model.vocab_size=128256", "data.context_length=8192", "data.batch_size=1024"]


@dataclass(frozen=True)
class Published:
    """A run as its report tells it."""

    name: str
    words: list[str]
    device: str
    devices: int
    layout: Layout
    rows: int
    tokens: float
    hours: float
    """The hours of one device."""


_7B = Layout(256, 8, "full", recomputed="full")
_70B = Layout(1024, 8, "full", 8, recomputed="full")
RUNS = (
    Published("GPT-2 124M, nanoGPT", GPT2, "a100-40gb", 8, Layout(8, 8, "ddp", accumulate=5), 12, 295e9, 8 * 96),
    Published("GPT-2 124M, llm.c", GPT2, "a100-80gb", 8, Layout(8, 8, "ddp"), 64, 10e9, 8 * 1.5),
    Published("Llama 2 7B", LLAMA_7B, "a100-80gb", 256, _7B, 4, 2e12, 184_320),
    Published("Llama 2 70B", LLAMA_70B, "a100-80gb", 1024, _70B, 4, 2e12, 1_720_320),
    Published("Llama 3.1 8B", LLAMA3_8B, "h100-sxm", 256, _7B, 2, 15e12, 1.46e6),
    Published("Llama 3.1 70B", LLAMA3_70B, "h100-sxm", 1024, _70B, 2, 15e12, 7.0e6),
)
"""Layouts and micro-batches are ours, since the reports do not tell theirs in full; by these plans all of them fit."""


def main() -> None:
    for run in RUNS:
        started = time.process_time()
        words = [*run.words, "precision=bf16-mixed", "data.packing=stream", "model.dropout=0"]
        runs = RunPlanner(compose_checked("train", words), "cuda")
        memory = runs.layout_costs.memory(run.layout, run.rows)
        step = runs.layout_costs.seconds(run.layout, run.rows, speed_of(device_sheets()[run.device]))
        rows = run.rows * run.layout.accumulate * run.layout.replicas
        rate = rows * runs.tokens_per_step / runs.batch.num_samples / step.total / run.devices
        hours = run.tokens / rate / 3600
        peak = speed_of(device_sheets()[run.device]).peaks[runs.precision.dtype]
        flops = runs.costs.totals.training_flops_per_token
        print(
            f"{run.name}: {runs.costs.totals.parameters / 1e9:.2f} G parameters, {memory.total / 2**30:.1f} GiB, "
            f"{rate:,.0f} tokens/s a device, MFU {rate * flops / peak:.0%}; {hours:,.0f} device hours planned, "
            f"{run.hours:,.0f} published ({hours / run.hours:.2f}), where MFU was "
            f"{run.tokens * flops / run.hours / 3600 / peak:.0%}; step {step.computing:.2f} + {step.exchanging:.2f} + "
            f"{step.updating:.2f} s [{time.process_time() - started:.1f} s of a processor]",
            flush=True,
        )


if __name__ == "__main__":
    main()
