"""The processor of this machine."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from pathlib import Path


@cache
def cpu_name() -> str:
    """Return the maker's name of the processor, such as "AMD EPYC 9554 64-Core Processor"; of one that hides its
    number, as in a virtual machine, with what tells its generation from others: "AMD EPYC, family 25, model 17"."""
    name = _cpu_line("model name") or platform.processor() or platform.machine()
    family, model = _cpu_line("cpu family"), _cpu_line("model")
    is_bare = family and model and not any(letter.isdecimal() for letter in name)
    return f"{name}, family {family}, model {model}" if is_bare else name


def _cpu_line(name: str) -> str:
    """Return what Linux says of the first processor under this name; empty where it says nothing."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            written, _, value = line.partition(":")
            if written.strip() == name:
                return value.strip()
    except OSError:
        pass
    return ""


@cache
def multiplies_bf16_slowly() -> bool:
    """Return whether products of bf16 take longer than those of float32 in spite of units for them: Intel's cores have
    fast ones in AMX alone, which a virtual machine may hide (85 against 145 GFLOP/s without, by
    benchmarks/cross_entropy.py)."""
    return cpu_name().startswith("Intel") and "amx_bf16" not in _cpu_line("flags").split()


@cache
def reads_one_row_slowly() -> bool:
    """Return whether a matrix in memory times a single vector takes twice as long as block by block: MKL's product on
    AMD's processors, where on Intel's the blocks take twice as long (measured by benchmarks/generation.py)."""
    return cpu_name().startswith("AMD")


THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""The variables that torch has its number of threads by: the second, where it is set, whatever the first says."""


def within_thread_limit(number: int) -> int:
    """Return this number of threads, or as many as OpenMP may start where OMP_THREAD_LIMIT says fewer. oneDNN divides a
    convolution or an LSTM among as many as torch has; of those that are not started the share is missing from the
    gradient, and no error says so."""
    limit = _thread_limit()
    return number if limit is None else min(number, limit)


def hold_threads_to_their_limit() -> None:
    """Let torch have no more threads than OpenMP may start: by the variables, which it reads when it is imported, and
    by its own number where it is imported already."""
    limit = _thread_limit()
    if limit is None:
        return
    for name in THREAD_VARIABLES:
        number = os.environ.get(name, "")
        if not (number.isdecimal() and int(number) <= limit):
            os.environ[name] = str(limit)
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() > limit:
        torch.set_num_threads(limit)


def _thread_limit() -> int | None:
    limit = os.environ.get("OMP_THREAD_LIMIT", "")
    return int(limit) if limit.isdecimal() else None
