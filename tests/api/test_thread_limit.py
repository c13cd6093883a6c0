"""OpenMP's limit of threads holds in a program that calls functions, as it does in commands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import headtohead as h2h
from headtohead import api
from headtohead.components.processor import THREAD_VARIABLES

SOURCES = Path(h2h.__file__).parent
OWNERS = {"components/processor.py", "training/parallel/devices.py"}


@pytest.fixture
def more_threads_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_THREAD_LIMIT", "1")
    for name in THREAD_VARIABLES:
        monkeypatch.setenv(name, "4")
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("more_threads_than_the_limit")
@pytest.mark.parametrize("name", sorted(set(api.PUBLIC) - {"Study"}))
def test_every_function_has_no_more_threads_than_openmp_may_start(name: str) -> None:
    """The number is torch's own where torch is here, and the variables' for torch and for programs that come later."""
    with pytest.raises(TypeError):
        getattr(h2h, name)(no_argument_of_any=1)
    assert torch.get_num_threads() == 1
    assert {os.environ[variable] for variable in THREAD_VARIABLES} == {"1"}


def test_only_what_holds_the_limit_sets_threads() -> None:
    setting = {file.relative_to(SOURCES).as_posix() for file in SOURCES.rglob("*.py") if _sets_threads(file)}
    assert setting == OWNERS


def _sets_threads(file: Path) -> bool:
    return "set_num_threads(" in file.read_text(encoding="utf-8")
