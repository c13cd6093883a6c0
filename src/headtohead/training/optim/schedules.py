"""Learning rates over a run, as factors on the peak: each schedule knows the run's steps, then answers for one step.

Step s is the number of optimizer steps already taken, so the first step asks for 0 and the last for total_steps - 1.
`warmup` and `decay` are a number of steps, or, below 1, a fraction of the run. Warm-up is linear and its last step has
the peak. `minimum` is the factor that a decay goes towards; it is reached at total_steps, so no step is wasted on 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from headtohead.errors import UsageError
from headtohead.ranges import Fraction, NotNegative

Schedule = Callable[[int], float]
"""A function from the number of optimizer steps already taken to the factor on the peak learning rate."""


def schedule_of(make: Callable[[int], Schedule], total_steps: int) -> Schedule:
    """Return the schedule of a run; refuse one of somebody's own that is not a function of the step."""
    schedule = make(total_steps)
    if not callable(schedule):
        raise UsageError(
            f"schedule: {schedule!r} was returned for the {total_steps} steps of the run: return a function from the "
            "number of steps taken to the factor on the peak learning rate"
        )
    return schedule


def constant(total_steps: int, *, warmup: NotNegative = 0.0) -> Schedule:
    """Stay at the peak after warm-up."""
    return _warmed_up(_steps("warmup", warmup, total_steps), lambda _: 1.0)


def linear(total_steps: int, *, warmup: NotNegative = 0.0, minimum: Fraction = 0.0) -> Schedule:
    """Fall linearly after warm-up."""
    start = _steps("warmup", warmup, total_steps)
    return _warmed_up(start, lambda step: _between(minimum, 1 - _progress(step, start, total_steps)))


def cosine(total_steps: int, *, warmup: NotNegative = 0.0, minimum: Fraction = 0.0) -> Schedule:
    """Half a cosine down (Loshchilov and Hutter 2017, https://arxiv.org/abs/1608.03983)."""
    start = _steps("warmup", warmup, total_steps)

    def decayed(step: int) -> float:
        return _between(minimum, 0.5 * (1 + math.cos(math.pi * _progress(step, start, total_steps))))

    return _warmed_up(start, decayed)


def noam(total_steps: int, *, warmup: NotNegative = 4000) -> Schedule:
    """Inverse square root (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762), with factor 1 at its peak.

    The paper's rate, d^-0.5 * min(t^-0.5, t * warmup^-1.5) with t counted from 1, peaks at (d * warmup)^-0.5: with
    that number as the optimizer's lr this schedule is the paper's, for any d.
    """
    peak = max(1, _steps("warmup", warmup, total_steps))

    def factor(step: int) -> float:
        t = step + 1
        value: float = math.sqrt(peak) * min(t**-0.5, t * peak**-1.5)
        return value

    return factor


def wsd(total_steps: int, *, warmup: NotNegative = 0.0, decay: NotNegative = 0.2, minimum: Fraction = 0.0) -> Schedule:
    """Warm-up, a stable stretch at the peak, and a straight line down at the end (Hu et al. 2024,
    https://arxiv.org/abs/2404.06395): branches of different length share everything before their decay."""
    start = _steps("warmup", warmup, total_steps)
    turn = total_steps - _steps("decay", decay, total_steps)
    if turn < start:
        raise UsageError(
            f"schedule=wsd: warmup ({start} steps) and decay ({total_steps - turn}) take more than the run's "
            f"{total_steps}: shorten one, or raise trainer.max_steps"
        )
    return _warmed_up(start, lambda step: _between(minimum, 1 - _progress(step, turn, total_steps)))


def _steps(name: str, value: float, total_steps: int) -> int:
    if value < 0 or (value >= 1 and value != int(value)):
        raise UsageError(f"schedule.{name}={value}: give a whole number of steps, or a fraction of the run below 1")
    return round(value * total_steps) if value < 1 else int(value)


def _warmed_up(warmup: int, after: Schedule) -> Schedule:
    return lambda step: (step + 1) / warmup if step < warmup else after(step)


def _progress(step: int, start: int, end: int) -> float:
    """0 until `start`, 1 from `end` on."""
    return min(1.0, max(0.0, (step - start) / max(1, end - start)))


def _between(minimum: float, share: float) -> float:
    return minimum + (1 - minimum) * share
