"""Programs of their own, for what cannot happen inside a test's process."""

from __future__ import annotations

from pathlib import Path

from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from warm_commands import h2h

HEADER = """
import sys
from functools import partial
from pathlib import Path

from training.runs import make_model, parts
from headtohead.training.parallel.process_group import is_main_process
from headtohead.training.run import train

folder = Path(sys.argv[1])
still = partial(make_model, dropout=0.0)


def tell(record):
    if is_main_process():
        print(record.path)
"""


def records_of(program: str, folder: Path) -> list[RunRecord]:
    """The records that the program tells of."""
    script = folder / "program.py"
    script.write_text(HEADER + program, encoding="utf-8")
    done = h2h(folder, program=script)
    assert done.returncode == 0, done.stderr
    return [RunFolder.open(path).read_record() for path in done.stdout.split()]
