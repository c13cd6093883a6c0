"""Random numbers that depend on who they are for, never on who asks or when.

A row's random choices follow from (seed, epoch, row, column, stream) alone, so they are the same on one process or
eight, before a resume or after. The mixing function is SplitMix64 (Steele, Lea and Flood 2014,
https://doi.org/10.1145/2714064.2660195).
"""

from __future__ import annotations

import numpy as np

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def mix(z: np.ndarray) -> np.ndarray:
    """Numbers that look drawn at random from numbers that do not; different ones stay different."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    array: np.ndarray = z ^ (z >> np.uint64(31))
    return array


def uniform(rows: np.ndarray, num_columns: int, *, seed: int, epoch: int, stream: int = 0) -> np.ndarray:
    """Float64 numbers in [0, 1), one for each row and column; `stream` tells apart independent uses."""
    with np.errstate(over="ignore"):
        key = np.zeros(1, dtype=np.uint64)
        for part in (seed, epoch, stream):
            key = mix(key + _GAMMA + np.uint64(part))
        per_row = mix(key + _GAMMA * (rows.astype(np.uint64) + np.uint64(1)))[:, None]
        bits = mix(per_row + _GAMMA * (np.arange(num_columns, dtype=np.uint64) + np.uint64(1))[None, :])
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
