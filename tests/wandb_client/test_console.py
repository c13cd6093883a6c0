"""W&B gets what a run prints as whole lines, without secrets, and nothing of it on request."""

from __future__ import annotations

import logging
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from headtohead.cli import main
from headtohead.records.secrets import clean_text
from headtohead.wandb_client.client_run import ConsoleLog
from headtohead.wandb_client.wandb_tracker import start
from run_folders import OFFLINE, PATIENT, UNTIL_THE_END, log_steps, new_run, wandb_id, written
from waiting import until
from wandb_server import WandbServer

SECRETS = {"SERVICE_TOKEN": "env-value-of-a-token", "DB_PASSWORD": "pa55word-of-db", "LONG_API_KEY": "0f0f0f0f-key"}


def heard(*printed: str) -> list[str]:
    lines: list[str] = []
    log = ConsoleLog(lines.append)
    log.start()
    for text in printed:
        sys.stdout.write(text)
    log.stop()
    sys.stdout.write("not heard\n")
    return lines


def test_lines_are_taken_whole_and_the_streams_given_back() -> None:
    before = sys.stdout.write
    assert heard("one\ntw", "o\n", "\x1b[31mred\x1b[0m\n", " 5 %\r90 %\rdone\n", "no end") == [
        "one", "two", "red", "done", "no end",
    ]  # fmt: skip
    assert sys.stdout.write == before
    assert heard("x" * 9_999 + "\n", "y" * 6_000, "y" * 6_000, "\nz\r", "\n") == [
        "x" * 9_999, "[a line of more than 10000 letters]", "z",
    ]  # fmt: skip


def test_handlers_that_hold_the_stream_are_heard_and_a_taker_that_prints_or_fails_harms_nobody() -> None:
    handler = logging.StreamHandler(sys.stderr)
    logger = logging.getLogger("somebody")
    logger.addHandler(handler)
    lines: list[str] = []

    def take(line: str) -> None:
        lines.append(line)
        sys.stdout.write("printed while taking\n")
        if line == "second":
            raise OSError("full")

    log = ConsoleLog(take)
    log.start()
    try:
        for text in ("first", "second", "third"):
            logger.warning(text)
    finally:
        log.stop()
        logger.removeHandler(handler)
    assert lines == ["first", "second"]


@pytest.mark.parametrize(
    ("line", "cleaned"),
    [
        ("the token is env-value-of-a-token.", "the token is ***."),
        ("api_key=abc, hf_token: xyz", "api_key=***, hf_token: ***"),
        ("{'password': 'hunter two', 'lr': 0.1}", "{'password': '***', 'lr': 0.1}"),
        ("Authorization: Bearer eyJhbGciOi", "Authorization: *** ***"),
        ("git clone https://me:secret@host/x", "git clone https://***@host/x"),
        ("login with hf_abcdefghijklmnop", "login with ***"),
        ("max_tokens=512 pad_token=<pad> loss=0.25", "max_tokens=512 pad_token=<pad> loss=0.25"),
        (f"saved {Path.home()}/outputs/a", "saved ~/outputs/a"),
        ("step 3: train/loss 0.3 (tokens/s 120)", "step 3: train/loss 0.3 (tokens/s 120)"),
    ],
)
def test_a_line_leaves_without_secrets_and_otherwise_as_it_is(
    line: str, cleaned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    assert clean_text(line) == cleaned


LONG = ["a", "a.-", "a=b ", "key ", "key: ", "' ", "://a:", "token='", " ", "=", "hf_", "Bearer "]


@pytest.mark.parametrize("part", LONG)
def test_a_long_line_takes_no_longer_than_its_length_asks_for(part: str) -> None:
    begun = time.process_time()
    clean_text(part * (10_000 // len(part)))
    assert time.process_time() - begun < 1, "a pattern that tries every beginning with every end takes hours"


def test_the_working_folder_does_not_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here := tmp_path / "work").mkdir()
    monkeypatch.chdir(here)
    assert clean_text(f'File "{here}/mine.py", line 3, in {here}') == 'File "./mine.py", line 3, in .'
    assert clean_text(f"{here}shop and {tmp_path}") == f"{here}shop and {tmp_path}"


def test_the_names_of_machine_and_user_do_not_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "ada-l")
    monkeypatch.setattr(socket, "gethostname", lambda: "host-of-ada")
    assert clean_text("ada-l@host-of-ada: trains, ada-list") == "***@***: trains, ada-list"


@pytest.mark.process
def test_the_console_arrives_without_the_secrets_that_were_printed_and_the_packages_with_it(
    tmp_path: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    record, folder = new_run(tmp_path)
    tracker = start(PATIENT, record, folder)
    sys.stdout.write(f"my own line, and {SECRETS['DB_PASSWORD']}\n")
    sys.stderr.write("password=hunter2\n")
    logging.StreamHandler(sys.stderr).emit(logging.makeLogRecord({"msg": "beware of " + SECRETS["LONG_API_KEY"]}))
    log_steps(tracker, folder, range(2))
    tracker.finish("finished")
    run = server.runs[wandb_id(folder)]
    log = "\n".join(run.console)
    assert "my own line, and ***" in log and "password=***" in log and "beware of ***" in log
    assert b"numpy==" in run.files["requirements.txt"]
    everything = b"".join(server.bodies)
    assert not [value for value in (*SECRETS.values(), "hunter2") if value.encode() in everything]


@pytest.mark.process
def test_with_console_false_neither_leaves_and_offline_the_log_is_in_the_file(
    tmp_path: Path, server: WandbServer
) -> None:
    for settings in (replace(PATIENT, console=False), OFFLINE):
        record, folder = new_run(tmp_path)
        tracker = start(settings, record, folder)
        sys.stdout.write("my own line\n")
        tracker.finish("finished")
        (directory,) = folder.wandb.glob("*run-*")
        logged = [line["output_logger"]["line"] for line in written(directory) if line["type"] == "output_logger"]
        assert ("my own line\n" in logged) == settings.console
    assert b"my own line" not in b"".join(server.bodies)
    (run,) = server.runs.values()
    assert not run.console and "requirements.txt" not in run.files


@pytest.mark.process
def test_the_record_is_among_the_files_of_the_page_and_its_summary_says_where(
    tmp_path: Path, server: WandbServer
) -> None:
    record, folder = new_run(tmp_path, config={"output_dir": f"{Path.home()}/outputs", "password": "hidden"})
    tracker = start(PATIENT, record, folder)
    tracker.finish("finished")
    run = server.runs[wandb_id(folder)]
    assert run.summary["record"] == f"{record.wandb.url}/files/record.json"
    assert b'"~/outputs"' in run.files["record.json"] and b"hidden" not in run.files["record.json"]


@pytest.mark.process
def test_lines_stand_on_the_page_once_after_a_sync(tmp_path: Path, server: WandbServer) -> None:
    record, folder = new_run(tmp_path)
    tracker = start(UNTIL_THE_END, record, folder)
    sys.stdout.write("early\n")
    log_steps(tracker, folder, range(3))
    run = server.runs[wandb_id(folder)]
    until(lambda: len(run.history) == 3 and run.console)
    server.behaviour = "refuses"
    sys.stdout.write("late\n")
    log_steps(tracker, folder, range(3, 6))
    tracker.finish("finished")
    server.behaviour = "healthy"
    record.status = "finished"
    folder.write_record(record)
    folder.release()
    assert main(["sync", str(tmp_path)]) == 0
    assert run.steps("train/loss") == list(range(6))
    assert [line.split(" ", 1)[1] for line in run.console if "early" in line or "late" in line] == ["early", "late"]
