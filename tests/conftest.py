"""Rules for every test: where shapes are checked, who may start a process, how many cases a drawn law takes."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir

import pytest
import torch

import shape_checks
from faulty_disk import UnsyncedDisk
from headtohead import cli
from headtohead.files import disk_operations, leases
from process_law import noted_processes
from sampled_cases import leave_the_rest_to_the_long_laws
from shape_hook import hooked_modules
from strict_probe import PROBE, refuse_warnings

pytest_plugins = ["postgres_server"]
SHAPE_FOLDERS = {"contracts", "components", "architectures", "generation", "parity"}
"""The tests whose calls have their shapes checked; elsewhere the marker `shapes` asks for it."""
QUICK_DRAWS = 12
PROCESS_DRAWS = 9
"""The draws of a case that starts processes: as many as there are kinds of runs that are killed."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_THREAD_LIMIT", "GOMP_SPINCOUNT")
STARTED = pytest.StashKey[list[str]]()
"""The processes that the run of a test started, and those of fixtures that it may share with tests before it."""
STARTED_BY: dict[pytest.FixtureDef[object], list[str]] = {}

shape_checks.install(hooked_modules())
from small_data_law import MOST_TEXTS, READ  # noqa: E402 - it imports what the hook is for

PROBE.addFilter(refuse_warnings)
# Collecting makes millions of objects that live to the end: the collector need not look at them again and again.
gc.disable()
# What tests prepare lies apart from what the user has prepared, perhaps by other versions of the libraries.
os.environ["HEADTOHEAD_CACHE"] = str(Path(gettempdir()) / f"headtohead-tests-{os.getpid()}")
# Nor is the user's own key made or read, nor their list of trusted packages.
os.environ["XDG_CONFIG_HOME"] = str(Path(gettempdir()) / f"headtohead-settings-{os.getpid()}")
# torch finds what it compiled for another kind of processor too, and cannot compile the rest of it for this one.
COMPILED_FOR = os.environ.get("ATEN_CPU_CAPABILITY", "this-processor")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(gettempdir()) / f"headtohead-inductor-{COMPILED_FOR}"))
# One thread a process, as the Makefile has it: several that wait for each other are a hundred times slower where the
# processors have other work too.
torch.set_num_threads(int(os.environ.setdefault("OMP_NUM_THREADS", "1")))
# Where there is no CUDA, torch.manual_seed keeps each seed for it with a text of the whole stack, a millisecond a time.
if not torch.cuda.is_available():
    setattr(torch, "manual_seed", torch.default_generator.manual_seed)  # noqa: B010
# No test cuts the power: those of what survives it have disks of their own, and waiting for the real one takes a tenth
# of the time of all tests.
setattr(disk_operations, "system", UnsyncedDisk())  # noqa: B010
# pytest-xdist gives its workers a terminal of 80 columns, and readline what pytest starts, past os.environ; what is
# written to a file or a pipe is as wide as COLUMNS says.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")
# A shell starts what it puts in the background with Ctrl-C ignored, and what tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--draws", type=int, default=QUICK_DRAWS, help="cases that each drawn law tries")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with the argument `draw_seed` is a drawn law: it is run once for each number below --draws."""
    if "draw_seed" in metafunc.fixturenames:
        draws = metafunc.config.getoption("--draws")
        starts_processes = metafunc.definition.get_closest_marker("process") is not None
        metafunc.parametrize("draw_seed", range(PROCESS_DRAWS if starts_processes and draws == QUICK_DRAWS else draws))


def pytest_itemcollected(item: pytest.Item) -> None:
    if "draw_seed" in getattr(item, "fixturenames", ()):
        item.add_marker("drawn")
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        item.add_marker(pytest.mark.skip(reason="there is no CUDA device"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_the_rest_to_the_long_laws(items)
    items[:] = long_files_first(config, items)


def long_files_first(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    """Put files with long tests first in the share of every worker, which are of as many items each: at the end, when
    one waits for the other, short ones are left."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    is_long = {file: any(map(_is_long, of_file)) for file, of_file in files.items()}
    in_order = sorted(files, key=lambda file: not is_long[file])
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    return [item for worker in range(workers) for file in in_order[worker::workers] for item in files[file]]


def _is_long(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("process", "slow"))


def pytest_collection_finish() -> None:
    _let_torch_log_through_one_logger()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def _let_torch_log_through_one_logger() -> None:
    """pytest hands its handlers, six times around every test, to each logger that keeps its messages to itself: torch
    has fifty of them, which took a thirtieth of the time of all tests."""
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("torch.") and name != "torch.__trace" and isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = True


def pytest_unconfigure() -> None:
    for position in ("HEADTOHEAD_CACHE", "XDG_CONFIG_HOME"):
        shutil.rmtree(os.environ[position], ignore_errors=True)


def checks_shapes(item: pytest.Item) -> bool:
    """Return whether the calls of a test are type-checked, which makes a training twice as long."""
    marker = item.get_closest_marker("shapes")
    if marker is not None:
        return bool(marker.args[0]) if marker.args else True
    return bool(SHAPE_FOLDERS & set(item.path.relative_to(item.config.rootpath).parts))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Around the fixtures too: what a module shares is made under the checks of the test that asks first."""
    shape_checks.switch(checks_shapes(item))
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)  # whichever test ran before in this process
    log = logging.getLogger("headtohead")
    before = log.handlers, log.propagate, log.level
    try:
        with noted_processes() as item.stash[STARTED]:
            return (yield)
    finally:  # a command of training writes its log to the terminal from then on
        log.handlers, log.propagate, log.level = before


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
    with noted_processes() as STARTED_BY[fixturedef]:
        return (yield)


@pytest.fixture(autouse=True)
def starts_no_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test without the marker `process` fails if it, or what it asks for, starts one, and any if it joins a group of
    processes: programs that later tests start would look for the group, too."""
    group = os.environ.get("MASTER_PORT")
    yield
    assert os.environ.get("MASTER_PORT") == group, "train with several devices in a program of its own (records_of)"
    fixtures = [one for several in request.node._fixtureinfo.name2fixturedefs.values() for one in several]
    shared = [program for one in fixtures for program in STARTED_BY.get(one, ())]
    started = request.node.stash[STARTED] + shared
    if any(program.endswith("wandb-core") for program in started):
        sys.modules["wandb"].teardown()  # the next test that needs W&B's service starts one, and says so
    marked = any(request.node.get_closest_marker(name) for name in ("process", "gpu"))
    assert marked or not started, f"mark this test `process`: it starts {', '.join(sorted(set(started)))}"


def _numbers_of_threads() -> dict[str, object]:
    """Return what later tests of this process, and the commands that they start, have their number of threads by."""
    return {"is_own_process": cli.is_own_process, **{name: os.environ.get(name) for name in THREADS}}


@pytest.fixture(autouse=True)
def leaves_the_number_of_threads() -> Iterator[None]:
    """Commands that believe in two threads where OpenMP may start one compute half of a product, or wait for ever."""
    before = _numbers_of_threads()
    yield
    assert _numbers_of_threads() == before, "call cli.main with arguments, or set back what it sets for its process"


@pytest.fixture(autouse=True, scope="module")
def leaves_no_lease() -> Iterator[None]:
    """Runs that tests write by hand are held by this process, which would beat for hundreds of them to the end."""
    yield
    leases._HELD.clear()


@pytest.fixture(autouse=True)
def reads_few_texts(request: pytest.FixtureRequest) -> Iterator[None]:
    """A quick test fails if it has texts prepared by the thousand: give `data.num_train`, or mark it `slow`."""
    READ.clear()
    yield
    if not any(request.node.get_closest_marker(name) for name in ("slow", "process", "gpu", "whole", "drawn")):
        many = [f"{count} of {name}" for name, count in READ.items() if count > MOST_TEXTS]
        assert not many, f"this test reads {', '.join(many)}: give data.num_train=1000 or so, or mark it `slow`"
