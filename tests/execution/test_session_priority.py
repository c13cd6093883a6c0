"""A run at a low priority stays at it in the session that its process begins, and torch's threads wait briefly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
GROUPS = Path("/proc/self/autogroup")
SHOWN = "print(open('/proc/self/autogroup').read())"
NICE = min(os.nice(0) + 7, 19)
"""Seven steps below whoever runs the tests, who may be nice already."""


def output_of(code: str, *, new_session: bool, variables: dict[str, str] | None = None) -> str:
    free = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    environment = {**free, **(variables or {})}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, start_new_session=new_session, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.skipif(not GROUPS.exists(), reason="Linux shares no processors among sessions here")
def test_a_session_of_its_own_is_as_nice_as_its_process() -> None:
    code = "import os; os.nice(7); from headtohead.execution.session_priority import keep_priority; keep_priority();"
    assert f"nice {NICE}" in output_of(code + SHOWN, new_session=True)


def test_the_session_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    group = tmp_path / "autogroup"
    group.touch()
    code = "import os, pathlib; os.nice(7); from headtohead.execution.session_priority import keep_priority;"
    output_of(f"{code} keep_priority(pathlib.Path({str(group)!r}))", new_session=False)
    assert group.read_text() == ""
    output_of(f"{code} keep_priority(pathlib.Path({str(group)!r}))", new_session=True)
    assert group.read_text() == str(NICE)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, "30000"), ({"GOMP_SPINCOUNT": "5"}, "5"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")],
)
def test_threads_of_a_command_wait_briefly_unless_the_user_says_how(variables: dict[str, str], expected: str) -> None:
    code = (
        "import os, sys; from headtohead.cli import main; sys.argv = ['h2h', '--version']; main();"
        "print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"
    )
    assert output_of(code, new_session=False, variables=variables).split()[-2:] == [expected, "False"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"OMP_THREAD_LIMIT": "1", "OMP_NUM_THREADS": "8"}, "1"),
        ({"OMP_THREAD_LIMIT": "3", "OMP_NUM_THREADS": ""}, "3"),
        ({"OMP_THREAD_LIMIT": "8", "OMP_NUM_THREADS": "2"}, "2"),
        ({"OMP_THREAD_LIMIT": "", "OMP_NUM_THREADS": "2"}, "2"),
    ],
)
def test_a_command_has_no_more_threads_than_openmp_may_start(variables: dict[str, str], expected: str) -> None:
    code = (
        "import os, sys; from headtohead.cli import main; sys.argv = ['h2h', '--version']; main();"
        "print(os.environ['OMP_NUM_THREADS'])"
    )
    assert output_of(code, new_session=False, variables=variables).split()[-1] == expected


def test_torch_has_no_more_threads_whatever_its_library_of_matrices_was_given() -> None:
    code = (
        "import os, sys; from headtohead.cli import main; sys.argv = ['h2h', '--version']; main();"
        "import torch; print(torch.get_num_threads())"
    )
    variables = {"OMP_THREAD_LIMIT": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "4"}
    assert output_of(code, new_session=False, variables=variables).split()[-1] == "1"
