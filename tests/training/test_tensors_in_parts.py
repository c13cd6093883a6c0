"""Tensors in parts on four processes are what one process has."""

from __future__ import annotations

from pathlib import Path

import pytest

from training import part_laws
from warm_commands import h2h


@pytest.mark.slow
@pytest.mark.process
def test_tensors_in_parts_obey_their_laws(tmp_path: Path) -> None:
    done = h2h(tmp_path, program=Path(part_laws.__file__))
    assert done.returncode == 0, done.stderr
    assert not done.stdout, done.stdout
