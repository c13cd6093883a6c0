"""Commands in processes that have this project's modules already."""

from __future__ import annotations

from pathlib import Path

import pytest

from waiting import until
from warm_commands import WarmCommand


@pytest.mark.process
def test_a_command_that_waits_for_ever_shows_where(tmp_path: Path) -> None:
    program, output, errors = tmp_path / "program.py", tmp_path / "output", tmp_path / "errors"
    program.write_text("import time\nprint('begun', flush=True)\ntime.sleep(5000)\n")
    command = WarmCommand([], output=output, errors=errors, program=program)
    until(lambda: output.exists() and output.read_text())
    try:
        assert f'"{program}", line 3' in command.stacks()
    finally:
        command.kill()
