"""Measure what waiting for many records costs: comparing them, listing them, the first view of the dashboard.

    python benchmarks/records.py [--records 10000] [--rounds 3]

The records are copies of the record of a short run, with names, seeds and results of their own, those of ten arms. Each
figure is the processor time of a whole process, and a line of docs/speed.md; what reading every record again takes is
printed beside them: that is what an index saves."""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from whole_processes import plain_row, process_cost, show

from headtohead.diagnostics.peers.peer_measurement import SpeedRow, save_rows

ARMS = 10
SHORT_RUN = (
    "trainer.max_steps=20", "trainer.validate_every=10", "tracking=none", "data.num_train=500",
    "data.num_validation=50", "data.num_test=50",
)  # fmt: skip
COMMAND = "import sys; from headtohead.cli import main; code = main(sys.argv[1:])"
SCAN = "import sys; from headtohead.records.run_folder import scan; print(len(scan(sys.argv[1])))"
FIRST_VIEW = """
import gzip, json, re, sys
from pathlib import Path
from urllib.parse import urlencode
from headtohead.comparison.dashboard.routes import DashboardRoutes

routes, view = DashboardRoutes(Path(sys.argv[1])), [("filter", ""), ("group", "arm"), ("sort", "newest")]
total = 0

def asked(path, query):
    global total
    answer = routes.answer(f"{path}?{urlencode(query)}")
    assert answer.status == 200
    total += len(gzip.compress(answer.body, 1))
    return json.loads(answer.body)

def files(path, known):
    # the page with all that it names, as a browser asks for it
    if path in known:
        return
    known[path] = routes.answer(path).body
    for name in re.findall(r'(?:from|src=|href=)\\s*"(?:\\./|/)([\\w.]+)"', known[path].decode()):
        files("/" + name, known)

own = {}
files("/", own)
total += sum(len(gzip.compress(body, 1)) for body in own.values())
page = asked("/api/runs", [*view, ("shown", "60")])
keys = {item[0] for item in page["items"] if len(item) == 2}
chosen = asked("/api/start", view)
page = asked("/api/runs", [*view, ("shown", "60"), *(("selected", key) for key in chosen)])
keys |= {key for key, _ in page["drawn"]}
asked("/api/rows", [("group", "arm"), *(("run", key) for key in sorted(keys))])
print(total)
"""
"""The questions that a page asks until all of it stands there, the files of the page among them."""


def train_one(folder: Path) -> Path:
    command = [sys.executable, "-m", "headtohead", "train", *SHORT_RUN, f"output_dir={folder}"]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*/*/record.json")).parent


def copy_runs(run: Path, folder: Path, number: int) -> None:
    """Write runs that differ from this one as runs of a study differ."""
    rng, text = random.Random(0), (run / "record.json").read_text(encoding="utf-8")
    metrics = (run / "metrics.csv").read_bytes()
    for index in range(number):
        arm, seed, own = index % ARMS, index // ARMS, folder / f"group{index % 7}" / f"run{index:05}"
        own.mkdir(parents=True)
        record = json.loads(text.replace(run.name, own.name))
        record |= {"id": own.name, "name": f"arm{arm}", "seed": seed, "group": own.parent.name}
        record["config"] |= {"seed": seed, "name": f"arm{arm}"}
        record["config"]["optimizer"]["lr"] = 1e-3 * (arm + 1)
        for results in record["metrics"].values():
            results |= {name: value * (1 + arm / 50 + rng.random() / 20) for name, value in results.items()}
        record["timing"]["started"] = f"2026-{1 + index % 12:02}-{1 + index % 28:02}T00:00:{index % 60:02}+00:00"
        (own / "record.json").write_text(json.dumps(record, indent=2), encoding="utf-8")
        (own / "metrics.csv").write_bytes(metrics)


def rows_of(folder: Path, number: int, rounds: int) -> list[SpeedRow]:
    root, of = str(folder / "runs"), f"of {number:,} records"
    filtered = ("list", "runs", root, "--where", "optimizer.lr<0.003 seed>10", "--sort", "test/loss", "--limit", "20")
    first_look = process_cost("-c", COMMAND, *filtered)
    process_cost("-c", COMMAND, *filtered)  # records of the last minutes are read a second time, then relied upon
    scanned = process_cost("-c", SCAN, root, rounds=rounds)
    print(
        f"  {first_look.seconds[0]:.2f} s and {first_look.megabytes:.0f} MB for the first look, which makes the index"
    )
    print(f"  {statistics.median(scanned.seconds):.2f} s and {scanned.megabytes:.0f} MB to read all records again")
    verdicts = process_cost("-c", COMMAND, "compare", root, "--against", "arm0", rounds=rounds)
    listed = process_cost("-c", COMMAND, *filtered, rounds=rounds)
    first = process_cost("-c", FIRST_VIEW, root, rounds=rounds)
    view = f"dashboard, first view {of}"
    return [
        *verdicts.rows(f"h2h compare --against {of}", seconds=4),
        *listed.rows(f"h2h list runs --where {of}", seconds=0.5),
        *first.rows(view, seconds=0.5, megabytes=150),
        plain_row(f"{view}, sent", [int(first.printed.split()[-1]) / 1e3], 300, "kB"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        os.environ["HEADTOHEAD_CACHE"] = str(folder / "cache")
        copy_runs(train_one(folder / "one"), folder / "runs", chosen.records)
        rows = rows_of(folder, chosen.records, chosen.rounds)
    for row in rows:
        show(row)
    save_rows("records", rows)


if __name__ == "__main__":
    main()
