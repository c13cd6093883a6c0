"""A user's type checker reads the types of the installed package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]
SCRIPT = """
import headtohead as h2h

config = h2h.compose("train", ["model=decoder_only", "trainer.max_steps=10"])
model = h2h.build_model(config)
weights: int = sum(weight.numel() for weight in model.parameters())
record = h2h.train(config)
assert record.path is not None
run = h2h.load_run(record.path)
text: str = run.generate("Once upon a time")[0].text
contest = h2h.compare([record.path, "outputs/other"], metric="test/loss", direction="min")
sentences: list[str] = [verdict.sentence for verdict in contest.verdicts]
"""
MISTAKES = {
    'h2h.compose(["model=decoder_only"])': "arg-type",
    "h2h.train(record)": "arg-type",
    "h2h.load_run(7)": "arg-type",
    'h2h.compare([record.path], direction="lowest")': "arg-type",
    "step: str = record.progress.step": "assignment",
    "record.verdict": "attr-defined",
    "contest.no_such_field": "union-attr",
}
"""Wrong lines that follow the script, and what the type checker calls them."""


@pytest.mark.process
def test_a_users_script_is_checked_against_the_installed_wheel_and_its_mistakes_are_told(tmp_path: Path) -> None:
    """The environment holds the wheel alone: of what it imports, users' checkers need no types to know ours."""
    [wheel] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    venv.create(tmp_path / "env", symlinks=True)
    [site] = (tmp_path / "env").glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "\n".join(MISTAKES) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}"]
    checked = subprocess.run(
        [*command, "--python-executable", str(tmp_path / "env" / "bin" / "python"), script.name],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "MYPYPATH"},
        capture_output=True,
        text=True,
    )
    message = re.findall(r"script\.py:(\d+): error: .*\[(.+)\]", checked.stdout)
    lines = (SCRIPT + "\n".join(MISTAKES)).splitlines()
    assert {lines[int(number) - 1]: code for number, code in message} == MISTAKES, checked.stdout + checked.stderr
