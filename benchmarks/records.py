"""Measure what waiting for many records costs: comparing them, listing them, the first view of the dashboard.

    python benchmarks/records.py [--records 10000] [--rounds 3] [--json FILE]

The records are copies of the record of a short run, with names, seeds and results of their own, those of ten arms. Each
figure is the processor time of a whole process, the median of the rounds; beside it stands what reading every record
again takes (`scan`), which is what an index saves. Targets: 4 s for verdicts, 0.5 s for a filter and for the first
view, of at most 300 kB."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

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
MEASURED = """
import json, resource, subprocess, sys
done = subprocess.run([sys.executable, "-c", *sys.argv[1:]], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3, done.returncode, done.stdout[-200:]]))
"""
"""A process whose children are one: their peak is that one's."""


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


def measure(*command: str) -> tuple[float, float, str]:
    """Return processor seconds, megabytes at the peak, and what was printed."""
    done = subprocess.run([sys.executable, "-c", MEASURED, *command], capture_output=True, text=True, check=True)
    seconds, peak, code, printed = json.loads(done.stdout)
    assert code == 0, f"exit code {code}: {printed}"
    return seconds, peak, printed


def median(rounds: int, *command: str) -> tuple[float, float, str]:
    results = [measure(*command) for _ in range(rounds)]
    return statistics.median(r[0] for r in results), max(r[1] for r in results), results[-1][2]


def row(work: str, ours: float, peer: float | None, target: float, unit: str, note: str) -> dict[str, Any]:
    ratio = None if peer is None else peer / ours
    return {"work": work, "ours": ours, "peer": peer, "ratio": ratio, "target": target, "unit": unit, "note": note}


def rows_of(folder: Path, number: int, rounds: int) -> list[dict[str, Any]]:
    root = str(folder / "runs")
    compare = ("compare", root, "--against", "arm0")
    filtered = ("list", "runs", root, "--where", "optimizer.lr<0.003 seed>10", "--sort", "test/loss", "--limit", "20")
    cold, cold_peak, _ = measure(COMMAND, *filtered)
    scanned, scan_peak, _ = median(rounds, SCAN, root)
    verdicts, verdict_peak, _ = median(rounds, COMMAND, *compare)
    listed, list_peak, _ = median(rounds, COMMAND, *filtered)
    first, first_peak, size = median(rounds, FIRST_VIEW, root)
    of = f"of {number:,} records"
    return [
        row(f"first look at the index {of}", cold, scanned, scanned, "s", f"once; {cold_peak:.0f} MB"),
        row(f"h2h compare --against {of}", verdicts, None, 4.0, "s", f"{verdict_peak:.0f} MB"),
        row(f"h2h list runs --where {of}", listed, scanned, 0.5, "s", f"{list_peak:.0f} MB, scan {scan_peak:.0f} MB"),
        row(f"dashboard, first view {of}", first, None, 0.5, "s", "with the start of the process"),
        row(
            f"dashboard, first view {of}",
            int(size) / 1e3,
            None,
            300.0,
            "kB",
            "the page, its scripts and the answers, packed as they are sent",
        ),
        row(f"dashboard, first view {of}", first_peak, None, 150.0, "MB", "resident at the peak"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="also write the rows there")
    chosen = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} processors", flush=True)
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        os.environ["HEADTOHEAD_CACHE"] = str(folder / "cache")
        copy_runs(train_one(folder / "one"), folder / "runs", chosen.records)
        rows = rows_of(folder, chosen.records, chosen.rounds)
    for one in rows:
        peer = "" if one["peer"] is None else f"  scan {one['peer']:.2f}, {one['ratio']:.1f} times"
        print(f"  {one['work']:<48}{one['ours']:>9.2f} {one['unit']:<3} target {one['target']:g}{peer}  {one['note']}")
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
