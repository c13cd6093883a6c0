"""Workers forked from a process beside their command: answers like a program's, and an end with whoever is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from waiting import PATIENCE, until

pytestmark = pytest.mark.process

PRELUDE = """
import os, pathlib, signal, subprocess, sys, time
from headtohead.execution.launchers.launcher import Command, LocalProcesses
from headtohead.execution.launchers.worker_forks import WorkerForks, threads_here

folder = pathlib.Path(sys.argv[1])
log = folder / "worker.log"

def ended(launcher):
    over = []
    while launcher.is_busy:
        over += launcher.ended()
        time.sleep(0.02)
    return over

def started(work):
    launcher = LocalProcesses()
    launcher.forks = WorkerForks(work)
    launcher.submit([Command((sys.executable, "-c", "raise SystemExit(9)"), log, threads=3)])
    return launcher
"""


def run(folder: Path, program: str) -> str:
    """Return what a program prints."""
    done = subprocess.run(command(folder, program), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def command(folder: Path, program: str) -> list[str]:
    return [sys.executable, "-c", PRELUDE + textwrap.dedent(program), str(folder)]


def test_a_worker_has_a_log_a_session_its_threads_and_an_exit_code(tmp_path: Path) -> None:
    program = """
    def work(threads, parent, command):
        alone = os.getsid(0) == os.getpid() and os.getppid() == parent
        print(threads, os.environ["OMP_NUM_THREADS"], alone)
        return 7
    print([(one.code, one.last_words) for one in ended(started(work))])
    """
    assert run(tmp_path, program) == "[(7, '3 3 True')]"


def test_what_the_command_does_after_the_fork_no_worker_inherits(tmp_path: Path) -> None:
    program = """
    values = []
    forks = WorkerForks(lambda *_: len(values))
    values.append("computed since")
    worker = forks.start(log, os.environ, 1)
    print(worker.wait(30))
    forks.close()
    forks.close()
    """
    assert run(tmp_path, program) == "0"


@pytest.mark.parametrize(
    ("end", "code"),
    [("raise ValueError('wrong')", 1), ("sys.exit(3)", 3), ("os.kill(os.getpid(), signal.SIGKILL)", -9)],
)
def test_a_worker_that_fails_takes_no_other_with_it(tmp_path: Path, end: str, code: int) -> None:
    program = f"""
    def work(*_):
        if (folder / "first").exists():
            return 0
        (folder / "first").touch()
        {end}
    launcher = started(work)
    codes = [one.code for one in ended(launcher)]
    launcher.submit([Command((), log)])
    print(codes + [one.code for one in ended(launcher)])
    """
    assert run(tmp_path, program) == f"[{code}, 0]"


def test_stopping_asks_workers_to_end_and_leaves_no_process(tmp_path: Path) -> None:
    program = """
    def work(*_):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        (folder / "there").touch()
        time.sleep(60)
    launcher = started(work)
    while not (folder / "there").exists():
        time.sleep(0.02)
    launcher.stop()
    print(launcher.is_busy, subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True).stdout.split())
    """
    assert run(tmp_path, program) == "False []"


def test_workers_end_when_their_command_is_killed(tmp_path: Path) -> None:
    program = """
    def work(threads, parent, command):
        (folder / "there").write_text(str(os.getpid()))
        while os.getppid() == parent:
            time.sleep(0.02)
        (folder / "ended").touch()
        return 0
    launcher = started(work)
    time.sleep(60)
    """
    with subprocess.Popen(command(tmp_path, program)) as started:
        wait_for(tmp_path / "there")
        os.kill(started.pid, signal.SIGKILL)
    wait_for(tmp_path / "ended")


def test_where_the_forking_process_was_killed_a_program_is_started(tmp_path: Path) -> None:
    program = """
    launcher = LocalProcesses()
    launcher.forks = WorkerForks(lambda *_: 0)
    os.kill(launcher.forks._pid, signal.SIGKILL)
    launcher.submit([Command((sys.executable, "-c", "raise SystemExit(9)"), log)])
    print([one.code for one in ended(launcher)])
    launcher.stop()
    """
    assert run(tmp_path, program) == "[9]"


def test_an_answer_that_ctrl_c_kept_from_being_read_is_not_taken_for_the_next(tmp_path: Path) -> None:
    program = """
    forks = WorkerForks(lambda threads, *_: threads)
    workers = [forks.start(log, os.environ, code) for code in (3, 4)]
    time.sleep(0.5)
    line, read = forks._line, forks._line.recv
    def interrupted():
        line.recv = read
        raise KeyboardInterrupt
    codes = []
    for worker in workers:
        line.recv = interrupted
        try:
            worker.poll()
        except KeyboardInterrupt:
            codes.append(worker.wait(30))
    forks.close()
    print(codes)
    """
    assert run(tmp_path, program) == "[3, 4]"


def test_where_the_machine_forks_no_more_a_program_is_started_and_other_workers_go_on(tmp_path: Path) -> None:
    program = """
    from unittest import mock
    def fork(real=os.fork):
        if len(forked) == 2:  # the process that workers are forked from, and the first of them
            raise BlockingIOError
        forked.append(1)
        return real()
    forked = []
    with mock.patch("os.fork", fork):
        launcher = LocalProcesses()
        launcher.forks = WorkerForks(lambda *_: time.sleep(0.5) or 7)
        launcher.submit([Command((sys.executable, "-c", "raise SystemExit(9)"), folder / name) for name in "ab"])
        print(sorted(one.code for one in ended(launcher)))
    launcher.stop()
    """
    assert run(tmp_path, program) == "[7, 9]"


@pytest.mark.parametrize("local", [[], ["launcher=local", "launcher.runs_per_device=2"]])
def test_threads_are_set_before_a_library_reads_them(tmp_path: Path, local: list[str]) -> None:
    program = f"""
    from headtohead import cli
    from headtohead.execution.launchers import launcher
    def environment(threads):
        print(threads, [name for name in ("numpy", "scipy", "torch") if name in sys.modules])
        sys.exit(0)
    launcher.environment = environment
    sys.argv = ["h2h", "study", "demo", "--threads", "3", *{local}]
    cli.main()
    """
    assert run(tmp_path, program) == "3 []"


@pytest.mark.slow
@pytest.mark.parametrize("command", [["train", "-m", "seed=1,2"], ["sweep", "sweep.yaml", "seed=1"]])
def test_runs_of_a_multirun_and_of_a_sweep_are_forked_and_none_computes_in_the_command(
    tmp_path: Path, command: list[str]
) -> None:
    own = ["model.d_model=16", "model.num_layers=1", "trainer.max_steps=1", "tracking=none", "probe=none"]
    small = ["data.num_train=64", "data.num_validation=32", "data.num_test=32", "trainer.num_samples=0"]
    program = f"""
    import threading, torch
    from headtohead import cli
    from headtohead.execution.launchers import launcher, worker_forks
    def program(*_):
        raise SystemExit("a program was started")
    launcher._program = program
    os.chdir(folder)
    pathlib.Path("sweep.yaml").write_text(
        'command: [h2h, train, "${{args_no_hyphens}}"]\\nmethod: grid\\n'
        "metric: {{name: validation/loss, goal: minimize}}\\nparameters: {{optimizer.lr: {{values: [0.1, 0.2]}}}}"
    )
    before = worker_forks.threads_here()
    os.environ["HEADTOHEAD_CACHE"] = str(folder / "cache")
    sys.argv = ["h2h", *{command + own + small}]
    code = cli.main()
    print(code, len(list(folder.rglob("record.json"))), worker_forks.threads_here() - before)
    """
    assert run(tmp_path, program).splitlines()[-1] == "0 2 0"


SHARED = """
    from headtohead import cli
    from headtohead.execution import worker
    from headtohead.execution.launchers import launcher, worker_forks
    forked, notes = [], folder / "notes"
    def fork(real=os.fork):
        if len(forked) == 2:  # the process that workers are forked from, and the first of them
            raise BlockingIOError
        forked.append(1)
        return real()
    def program(command, variables):
        words = command.arguments
        (folder / "program").write_text(words[words.index("--parent") + 1])
        return subprocess.Popen(("true",))
    def pool(leases, shared_by):
        (folder / "forked").write_text(str(shared_by))
        os._exit(0)
    worker.GpuPool, launcher._program = pool, program
    os.chdir(folder)
    os.environ["HEADTOHEAD_CACHE"] = str(folder / "cache")
    pathlib.Path("sweep.yaml").write_text(
        'command: [h2h, train, "${args_no_hyphens}"]\\nmethod: grid\\n'
        "metric: {name: validation/loss, goal: minimize}\\nparameters: {optimizer.lr: {values: [0.1, 0.2]}}"
    )
    pathlib.Path("study.yaml").write_text(
        "question: Which norm?\\nhypothesis: None.\\ntuning: None.\\n"
        "metric: validation/loss\\ndirection: min\\nbaseline: one\\nseeds: 2\\n"
        "base: [trainer.max_steps=2]\\narms: {one: [model/norm=rms_norm], other: [model/norm=layer_norm]}\\n"
    )
    from unittest import mock
    with mock.patch("os.fork", fork):
        sys.argv = ["h2h", *ARGUMENTS]
        cli.main()
    print((folder / "forked").read_text() == (folder / "program").read_text() == str(os.getpid()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", [["train", "-m", "seed=1,2"], ["sweep", "sweep.yaml"], ["study", "study.yaml"]])
def test_workers_that_were_forked_share_gpus_with_those_that_could_not_be(tmp_path: Path, command: list[str]) -> None:
    """A machine that forks no more starts programs instead, which look for free GPUs by the command's number."""
    arguments = [*command, "--workers", "2", "--threads", "1", "tracking=none"]
    assert run(tmp_path, SHARED.replace("ARGUMENTS", repr(arguments))).splitlines()[-1] == "True"


def test_threads_are_counted_of_libraries_too(tmp_path: Path) -> None:
    program = """
    before = threads_here()
    import threading
    threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
    print(threads_here() - before)
    """
    assert run(tmp_path, program) == "1"


def wait_for(file: Path) -> None:
    until(file.exists, otherwise=lambda: str([process.name() for process in psutil.process_iter()]))
