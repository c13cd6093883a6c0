"""A process of several that is killed: the others say which, and how to go on; what was trained is not lost."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from headtohead.files.process_liveness import Owner
from headtohead.training.parallel import process_group
from headtohead.training.parallel.process_group import lost_process
from headtohead.training.run import train
from headtohead.training.run_outcome import outcome_of
from training.programs import HEADER, records_of
from training.runs import make_model, parts
from waiting import is_gone, until
from warm_commands import WarmCommand

KILLED = """
import os, signal, time
from training.interruptions import at_batch
from headtohead.training.parallel.process_group import is_main_process

# The main process notices the death later than Lightning, which looks for it every five seconds.
data = at_batch(9, lambda: time.sleep(8) if is_main_process() else os.kill(os.getpid(), signal.SIGKILL))
tell(train(parts(folder, make_model=still, strategy="ddp", devices=2, data=data)))
"""

NOT_YET_MET = """
import os, time
from headtohead.training.parallel.process_group import is_main_process

if not is_main_process():
    (folder / "second").write_text(str(os.getpid()))
    time.sleep(3)
train(parts(folder, make_model=still, strategy="ddp", devices=2))
"""


def test_the_words_of_a_lost_connection_become_the_process_that_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Owner.this_process()
    gone = Owner(pid=2**22 + 1, started="0", machine=own.machine)
    error = RuntimeError("[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234")
    monkeypatch.setattr(process_group, "_peers", [own, gone])

    assert outcome_of(error, parts(tmp_path)) == ("interrupted", lost_process(error))
    assert f"of the run's 2 processes, rank 1 (pid {gone.pid}) died" in (lost_process(error) or "")
    assert lost_process(RuntimeError("shapes do not match")) is None

    monkeypatch.setattr(process_group, "_peers", [own, Owner(pid=1, started="0", machine="another")])
    monkeypatch.setattr(process_group, "_PATIENCE", 0.01)
    assert lost_process(error) == "the connection to another of the run's 2 processes is lost: resume the run"

    monkeypatch.setattr(process_group, "_peers", [])
    assert lost_process(error) is None


@pytest.mark.process
@pytest.mark.slow
def test_a_killed_process_is_named_and_its_run_goes_on(tmp_path: Path) -> None:
    (record,) = records_of(KILLED, tmp_path)
    assert record.status == "interrupted"
    assert record.reason is not None and "of the run's 2 processes, rank 1 (pid" in record.reason
    assert "resume the run" in record.reason

    resumed = train(parts(tmp_path, make_model=make_model, resume_from=record.path))
    assert resumed.status == "finished"


@pytest.mark.process
@pytest.mark.slow
def test_a_second_process_ends_where_the_first_is_killed_before_they_have_met(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(HEADER + NOT_YET_MET, encoding="utf-8")
    first = WarmCommand([tmp_path], program=script, output=tmp_path / "said")
    second = psutil.Process(int(until(lambda: (tmp_path / "second").exists() and (tmp_path / "second").read_text())))
    first.kill()
    until(lambda: is_gone(second))
    assert "first process" in until((tmp_path / "said").read_text)
