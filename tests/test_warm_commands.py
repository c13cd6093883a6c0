"""Commands in processes that have this project's modules already."""

from __future__ import annotations

import subprocess
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
        with pytest.raises(subprocess.TimeoutExpired) as error:
            command.wait(0.1)
        assert f'"{program}", line 3' in error.value.__notes__[0]
    finally:
        command.kill()
