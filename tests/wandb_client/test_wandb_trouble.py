"""Servers that refuse, fail, hang or are not there: no run is lost, delayed for long, or incomplete on disk."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from headtohead.records.run_folder import RunFolder
from headtohead.wandb_client.wandb_tracker import WandbTracker, start
from run_folders import IMPATIENT, NUMBERS, UNTIL_THE_END, history, log_steps, message, new_run, wandb_id
from waiting import PATIENCE
from wandb_server import WandbServer


@pytest.mark.parametrize("behaviour", ["refuses", "fails", "hangs", "gone"])
@pytest.mark.process
def test_a_server_in_trouble_at_the_start_means_an_offline_run_with_every_row(
    tmp_path: Path, server: WandbServer, caplog: pytest.LogCaptureFixture, behaviour: str
) -> None:
    if behaviour == "gone":
        server.close()
    server.behaviour = behaviour
    record, folder = new_run(tmp_path)
    begun = time.monotonic()
    with caplog.at_level(logging.INFO, logger="headtohead"):
        tracker = start(IMPATIENT, record, folder)
    log_steps(tracker, folder, range(5))
    tracker.finish("finished")

    assert time.monotonic() - begun < 60, "W&B's own limits are 90 seconds and more"
    assert record.wandb.mode == "offline"
    assert len(message(caplog)) == 1
    assert message(caplog)[0].startswith("W&B is offline (http://127.0.0.1")
    assert isinstance(tracker, WandbTracker)
    assert [row["item"]["trainer/global_step"] for row in history(tracker.directory)] == [0, 1, 2, 3, 4]
    assert list(folder.wandb.glob("*run-*")) == [tracker.directory]


@pytest.mark.parametrize("behaviour", ["hangs", "fails"])
@pytest.mark.process
def test_a_server_in_trouble_at_the_end_delays_the_process_by_no_more_than_the_timeout(
    tmp_path: Path, server: WandbServer, behaviour: str
) -> None:
    code = NUMBERS + "print(flush=True); input()\ntracker.finish('finished')\nprint(tracker.directory, flush=True)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    server.behaviour = behaviour
    begun = time.monotonic()
    out, err = process.communicate("\n", timeout=PATIENCE)

    assert time.monotonic() - begun < 60, "W&B's own limits are 90 seconds and more"
    assert process.returncode == 0
    assert "W&B did not accept everything within 1 s; `h2h sync " in err
    rows = history(Path(out.strip()))
    assert [row["item"]["trainer/global_step"] for row in rows] == list(range(20))


@pytest.mark.process
def test_a_run_whose_server_was_lost_is_resumed_offline_with_every_step(tmp_path: Path, server: WandbServer) -> None:
    record, folder = new_run(tmp_path)
    tracker = start(UNTIL_THE_END, record, folder)
    log_steps(tracker, folder, range(5))
    server.behaviour = "hangs"
    tracker.finish("interrupted")

    folder.release()
    folder = RunFolder.resume(folder.path, step=4)
    tracker = start(IMPATIENT, record, folder, resumed=True)
    log_steps(tracker, folder, range(5, 7))
    tracker.finish("finished")

    assert isinstance(tracker, WandbTracker)
    assert (record.wandb.mode, record.wandb.id) == ("offline", wandb_id(folder))
    assert [row["item"]["trainer/global_step"] for row in history(tracker.directory)] == list(range(7))


@pytest.mark.process
def test_an_offline_run_asks_no_server_for_anything_and_waits_for_none(
    tmp_path: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.behaviour = "hangs"
    monkeypatch.delenv("WANDB_API_KEY")
    begun = time.monotonic()
    command = [sys.executable, "-c", NUMBERS + "tracker.finish('finished')\n", str(tmp_path)]
    subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)

    assert time.monotonic() - begun < 60, "W&B's own limits are 90 seconds and more"
    assert server.requested == []


@pytest.mark.process
def test_the_death_of_wandbs_service_does_not_stop_the_run(tmp_path: Path) -> None:
    code = NUMBERS + (
        "import psutil\n"
        "for child in psutil.Process().children(recursive=True):\n"
        "    child.kill()\n"
        "time.sleep(0.5)\n"
        "for step in range(20, 30):\n"
        "    tracker.log(Progress(step), {'train/loss': 1.0})\n"
        "    folder.log(Progress(step), {'train/loss': 1.0})\n"
        "tracker.finish('finished')\n"
        "print('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done"
    assert done.stderr.count("headtohead") == 0
    assert "uploads the run" in done.stderr or "its record only" in done.stderr


def test_without_room_for_wandbs_files_the_record_goes_on_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record, folder = new_run(tmp_path)
    folder.wandb.write_text("a file where a folder must be")

    tracker = start(IMPATIENT, record, folder)
    log_steps(tracker, folder, range(2))
    tracker.finish("finished")

    assert "the run continues with its record only" in caplog.text
    assert record.wandb.mode == "none"
    assert folder.metrics()["train/loss"].step == [0, 1]


@pytest.mark.process
def test_no_service_of_wandb_outlives_its_process(tmp_path: Path) -> None:
    code = NUMBERS + "import psutil\nprint(*[c.pid for c in psutil.Process().children(recursive=True)])\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "tracker.finish('finished')\n", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    services = [int(word) for word in done.stdout.split()]
    assert services
    gone, alive = psutil.wait_procs(
        [psutil.Process(pid) for pid in services if psutil.pid_exists(pid)], timeout=PATIENCE
    )
    assert not alive
    del gone
