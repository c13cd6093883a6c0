"""Set as many runs side by side on each device of this machine as its memory holds of the largest one, which is
measured once, by two steps in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from headtohead.config.run_config import RunConfig
from headtohead.errors import UsageError
from headtohead.execution.run_spec import RunSpec, WorkPlan
from headtohead.files.atomic_write import replace_text
from headtohead.files.safe_read import parse_json, read_object
from headtohead.records.strict_json import decode

FILE = "run_memory.json"
_CUDA_CONTEXT = 2**30
"""Bytes of a GPU that a process holds beside torch's: its context and the libraries' buffers, generously."""
_USABLE = 0.9
_STEPS = 2
"""The optimizer has its state after the first, and the second is like all others."""


@dataclass(frozen=True)
class RunMemory:
    """One process took so many bytes while it trained a run, of those that its device or this machine has for all."""

    run: str
    bytes: int
    available: int

    @property
    def at_once(self) -> int:
        return max(1, int(_USABLE * self.available / self.bytes))


def run_memory(plan: WorkPlan, runs: Sequence[RunSpec], *, threads: int = 1, trust: Sequence[str] = ()) -> RunMemory:
    """Return what the largest of the runs takes, as measured now or for an earlier call on the same plan."""
    largest = _largest(runs)
    file = plan.folder / FILE
    if (known := _known(file)) is not None and known.run == largest.id:
        return known
    measured = RunMemory(largest.id, **_measured(largest.config, threads, trust))
    plan.folder.mkdir(parents=True, exist_ok=True)
    replace_text(file, json.dumps(asdict(measured)))
    return measured


def _known(file: Path) -> RunMemory | None:
    """Return what was measured before, None where the file does not say."""
    try:
        known: RunMemory = decode(RunMemory, read_object(file), str(file))
    except (UsageError, OSError):
        return None
    return known if known.bytes > 0 and known.available > 0 else None


def _largest(runs: Sequence[RunSpec]) -> RunSpec:
    """Return the run with the most bytes by the ledger, of one seed for each arm."""
    from headtohead.estimates.run_cost import RunCosts

    costs = RunCosts()
    by_arm = {run.arm: run for run in reversed(runs)}

    def size(run: RunSpec) -> float:
        totals = costs.of(run.config).model.totals
        rows: int = run.config["data"].get("batch_size", 1)
        return 16.0 * totals.parameters + float(totals.activation_bytes) * rows

    return max(by_arm.values(), key=size)


def _measured(config: Mapping[str, object], threads: int, trust: Sequence[str]) -> dict[str, int]:
    """Return the bytes that a process takes which trains this run, and those there are."""
    request = json.dumps({"config": dict(config), "threads": threads, "trust": list(trust)})
    command = (sys.executable, "-m", __name__)
    done = subprocess.run(command, input=request, capture_output=True, text=True, check=False)
    if done.returncode:
        words = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it said nothing")
        raise UsageError(
            f"launcher.runs_per_device=auto could not train two steps of {RunConfig(config).name} to measure its "
            f"memory ({words}): give a number instead, launcher.runs_per_device=2"
        )
    measured: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return measured


def measure_here() -> None:
    """Train two steps of the configuration on standard input, and print what this process took."""
    import torch

    from headtohead.config.trust import trusting
    from headtohead.estimates.step_times import TimedModel
    from headtohead.training.memory import PeakMemory, free_memory, memory_limit
    from headtohead.training.parallel.devices import threads

    request = parse_json(sys.stdin.read(), "the run to be measured")
    with threads(request["threads"]):
        with trusting(request["trust"]):
            trained = TimedModel(request["config"])
        before = PeakMemory(trained.device)
        trained.train(_STEPS)
    is_gpu = trained.device.type == "cuda"
    took = torch.cuda.max_memory_reserved(trained.device) + _CUDA_CONTEXT if is_gpu else before.read()
    available = memory_limit(trained.device) if is_gpu else free_memory(trained.device) + took
    sys.stdout.write(json.dumps({"bytes": took, "available": available}))


if __name__ == "__main__":
    measure_here()
