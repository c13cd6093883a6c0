"""All cases of a plan, measured one after another, each in a fresh process, every round in turn."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import torch

from headtohead.examining.bench.measuring import Measurement, Status, measure
from headtohead.examining.bench.memory_guard import MemoryGuard, died_of_memory
from headtohead.examining.bench.plan import BenchPlan, Case
from headtohead.training.machine_memory import free_memory
from headtohead.training.outcomes import is_out_of_memory

_PRELOADED = ["headtohead.examining.bench.measuring"]
INTERRUPTED = "interrupted"
"""The reason of what was not measured when a sweep was stopped."""
Tell = Callable[[Case], None]


def sweep(config: Mapping[str, Any], plan: BenchPlan, *, tell: Tell | None = None) -> list[Measurement]:
    """One measurement for each case: medians over the rounds, the largest peak. `tell` hears of each case begun.

    Interrupted, it gives what it has; the rest counts as left out.
    """
    found: dict[Case, list[Measurement]] = {case: [] for case in plan.cases()}
    try:
        _measure_all(config, plan, found, tell)
    except KeyboardInterrupt:
        for case, results in found.items():
            if not results:
                results.append(Measurement(case, "left_out", INTERRUPTED, length=case.length))
    return [_together(results) for results in found.values()]


def _measure_all(
    config: Mapping[str, Any], plan: BenchPlan, found: dict[Case, list[Measurement]], tell: Tell | None
) -> None:
    guard = MemoryGuard(plan.memory_share)
    device = torch.device("cuda" if _on_gpu(config) else "cpu")
    for _ in range(plan.rounds):
        for case, results in found.items():
            if tell is not None:
                tell(case)
            if not results or results[0].status == "measured":
                results.append(_tried(config, case, plan.seconds, guard, device))


def _tried(
    config: Mapping[str, Any], case: Case, seconds: float, guard: MemoryGuard, device: torch.device
) -> Measurement:
    reason = guard.refusal(case, free_memory(device))
    if reason is not None:
        guard.end(case)
        return Measurement(case, "left_out", reason, length=case.length)
    result = _in_a_process(config, case, seconds)
    if result.status == "measured":
        guard.learn(case, result.peak_bytes)
    elif result.status == "out_of_memory":
        guard.end(case)
    return result


def _on_gpu(config: Mapping[str, Any]) -> bool:
    return config["trainer"].get("accelerator") != "cpu" and torch.cuda.is_available()


def _together(results: list[Measurement]) -> Measurement:
    good = [result for result in results if result.status == "measured"]
    if not good:
        return results[0]
    return replace(
        good[0],
        seconds=median(result.seconds for result in good),
        peak_bytes=max(result.peak_bytes for result in good),
    )


def _in_a_process(config: Mapping[str, Any], case: Case, seconds: float) -> Measurement:
    """A server that has imported everything forks: a process costs a moment, and shares nothing it could hurt."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, dict(config), case, seconds), daemon=True)
    process.start()
    theirs.close()
    try:
        result: Measurement = ours.recv()
    except EOFError:
        process.join()
        status: Status = "out_of_memory" if died_of_memory(process.exitcode) else "failed"
        return Measurement(case, status, f"the process ended with {process.exitcode}", length=case.length)
    finally:
        ours.close()
        process.join(timeout=10)
        process.kill()
    return result


def _work(pipe: Connection, config: Mapping[str, Any], case: Case, seconds: float) -> None:
    pipe.send(_measured(config, case, seconds))
    pipe.close()


def _measured(config: Mapping[str, Any], case: Case, seconds: float) -> Measurement:
    """A case that cannot be measured is a result too."""
    try:
        return measure(config, case, seconds=seconds)
    except Exception as error:
        words = " ".join(str(error).split())
        status: Status = "out_of_memory" if is_out_of_memory(error) else "failed"
        return Measurement(case, status, f"{type(error).__name__}: {words}"[:500], length=case.length)
