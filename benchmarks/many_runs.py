"""Processor time and peak memory where runs are many: the plan of a study, the comparison of many records, a study of
short runs.

    python benchmarks/many_runs.py [--arms 1000] [--seeds 1] [--records 10000] [--short 12]

The arms are of fifty rates each of twenty shapes; the records are those of ten arms. Each command is a whole process.
The short runs take one step each on a few tokens, so that a study of them costs what it would cost besides training:
the share is that of the same study with three seconds of training a run. Target: 12 %.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from headtohead.records.record import Comparability, Progress, RunRecord
from headtohead.records.run_folder import RunFolder

RATES, ARMS_OF_RECORDS = 50, 10
STUDY = """# Many arms.
question: Which of many?
hypothesis: One of them.
tuning: none
metric: test/loss
direction: min
margin: 0.05
baseline: a0_0
seeds: {seeds}
base:
  - data=grammar_lm
  - data.num_train=400
  - data.num_validation=50
  - data.num_test=50
  - data.context_length=64
  - model=decoder_only
  - model/size=tiny
  - trainer.max_steps=100
  - tracking=none
arms:
{arms}
"""


SHORT_STUDY = """# Short runs.
question: Which rate?
hypothesis: One of them.
tuning: none
metric: test/loss
direction: min
margin: 0.05
baseline: a0
seeds: 1
base:
  - data=grammar_lm
  - data.num_train=200
  - data.num_validation=4
  - data.num_test=4
  - data.context_length=16
  - model=decoder_only
  - model/size=tiny
  - trainer.max_steps=1
  - trainer.threads=1
  - trainer.num_samples=0
  - trainer.keep_checkpoints=none
  - probe=none
  - tracking=none
arms:
{arms}
"""
SECONDS_OF_A_RUN = 3.0


def write_short_study(folder: Path, num_runs: int) -> None:
    (folder / "study").mkdir(parents=True, exist_ok=True)
    arms = "\n".join(f"  a{arm}: [optimizer.lr={(arm + 1) * 1e-4:.6f}]" for arm in range(num_runs))
    (folder / "study" / "short.yaml").write_text(SHORT_STUDY.format(arms=arms))


def write_study(folder: Path, num_arms: int, num_seeds: int) -> None:
    (folder / "study").mkdir(parents=True)
    arms = (
        f"  a{shape}_{rate}: [model.d_model={32 + 16 * (shape % 10)}, model.num_heads=2, "
        f"model.num_layers={1 + shape // 10}, optimizer.lr={(rate + 1) * 1e-4:.6f}]"
        for shape in range(num_arms // RATES)
        for rate in range(RATES)
    )
    (folder / "study" / "many.yaml").write_text(STUDY.format(seeds=num_seeds, arms="\n".join(arms)))


def write_records(folder: Path, number: int) -> None:
    for index in range(number):
        arm, seed = index % ARMS_OF_RECORDS, index // ARMS_OF_RECORDS
        run = RunFolder.create_at(folder / f"run{index}")
        record = RunRecord(id=run.id, name=f"arm{arm}", seed=seed, status="finished", progress=Progress(step=4))
        record.comparability = Comparability(evaluation="e")
        record.metrics["test"] = {"loss": 1 + arm / 10 + (seed * 7919 % 1000) / 1e4}
        run.write_record(record)


def measure(name: str, arguments: list[str], folder: Path) -> float:
    """Return the seconds of a child of its own: the peak of all children is then that of one."""
    code = (
        "import resource, subprocess, sys; "
        "command = [sys.executable, '-m', 'headtohead', *sys.argv[1:]]; "
        "code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode; "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "seconds = used.ru_utime + used.ru_stime; "
        "print(f'{seconds:.1f} s of processor time, {used.ru_maxrss / 1e6:.2f} GB, exit code {code}')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    print(f"  {name:<44} {done.stdout.strip()}", flush=True)
    return float(done.stdout.split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--short", type=int, default=12)
    chosen = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} processors", flush=True)
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        os.environ.setdefault("HEADTOHEAD_CACHE", str(folder / "cache"))
        if chosen.arms:
            write_study(folder / "conf", chosen.arms, chosen.seeds)
            command = ["study", "many", "--plan", "--config-dir", str(folder / "conf")]
            measure(f"h2h study --plan, {chosen.arms:,} arms", command, folder)
        if chosen.records:
            write_records(folder / "runs", chosen.records)
            command = ["compare", "runs", "--against", "arm0"]
            measure(f"h2h compare --against, {chosen.records:,} records", command, folder)
        if chosen.short:
            write_short_study(folder / "conf", chosen.short)
            command = ["study", "short", "--config-dir", str(folder / "conf")]
            seconds = measure(f"h2h study, {chosen.short} runs of a step", command, folder)
            share = seconds / (seconds + SECONDS_OF_A_RUN * chosen.short)
            print(f"  {share:.0%} of the same study with {SECONDS_OF_A_RUN:g} s of training a run (target 12 %)")


if __name__ == "__main__":
    main()
