"""Processor time and peak memory of whole commands: the first step, the plan of a study of many arms, a study of short
runs.

    python benchmarks/many_runs.py [--arms 1000] [--seeds 1] [--short 12] [--rounds 3]

The arms are of fifty rates each of twenty shapes. Each command is a whole process, and its lines go into docs/speed.md.
The short runs take one step each on a few tokens, so that a study of them costs what it would cost besides training:
the share is that of the same study with three seconds of training a run.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from whole_processes import plain_row, process_cost, show

from headtohead.diagnostics.peers.peer_measurement import SpeedRow, save_rows

RATES = 50
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
        for shape, rate in (divmod(arm, RATES) for arm in range(num_arms))
    )
    (folder / "study" / "many.yaml").write_text(STUDY.format(seeds=num_seeds, arms="\n".join(arms)))


def starts(rounds: int, folder: Path) -> list[SpeedRow]:
    """Measure what a command takes before it does anything large."""
    train = process_cost("-m", "headtohead", "train", "trainer.max_steps=1", rounds=rounds, folder=folder)
    inspect = process_cost("-m", "headtohead", "inspect", rounds=rounds, folder=folder)
    return [
        *train.rows("h2h train trainer.max_steps=1", seconds=4.2, megabytes=500),
        *inspect.rows("h2h inspect", seconds=2),
    ]


def planned(num_arms: int, num_seeds: int, rounds: int, folder: Path) -> list[SpeedRow]:
    """Measure the plan of a study of many arms."""
    write_study(folder / "conf", num_arms, num_seeds)
    command = ("-m", "headtohead", "study", "many", "--plan", "--config-dir", str(folder / "conf"))
    cost = process_cost(*command, rounds=rounds, folder=folder)
    return cost.rows(f"h2h study --plan, {num_arms:,} arms", seconds=20, megabytes=1000)


def short_runs(num_runs: int, rounds: int, folder: Path) -> list[SpeedRow]:
    """Measure what a study of short runs takes besides training."""
    write_short_study(folder / "conf", num_runs)
    costs = []
    for index in range(rounds):
        out = f"output_dir={folder / f'short{index}'}"
        command = ("-m", "headtohead", "study", "short", "--config-dir", str(folder / "conf"), out)
        costs += process_cost(*command, folder=folder).seconds
    shares = [100 * seconds / (seconds + SECONDS_OF_A_RUN * num_runs) for seconds in costs]
    work = f"fixed cost of a study of {num_runs} runs of {SECONDS_OF_A_RUN:g} s"
    return [plain_row(work, shares, 12, "%", "imports, composing, timing an arm, a forked process a run, the report")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--short", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        os.environ["HEADTOHEAD_CACHE"] = str(folder / "cache")
        rows = starts(chosen.rounds, folder)
        rows += planned(chosen.arms, chosen.seeds, chosen.rounds, folder) if chosen.arms else []
        rows += short_runs(chosen.short, chosen.rounds, folder) if chosen.short else []
    for row in rows:
        show(row)
    save_rows("commands", rows)


if __name__ == "__main__":
    main()
