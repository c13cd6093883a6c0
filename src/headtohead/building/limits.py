"""The range of a number, by the field's name: a name means the same in every choice that has it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; `above` leaves out the lower end, `below` the upper."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    below: bool = False

    def holds(self, value: float) -> bool:
        over = value > self.low if self.above else value >= self.low
        return over and (value < self.high if self.below else value <= self.high)

    def wants(self) -> str:
        low = f"{'above' if self.above else 'at least'} {_told(self.low)}"
        high = f"{'below' if self.below else 'at most'} {_told(self.high)}"
        if math.isinf(self.high):
            return low
        return high if math.isinf(self.low) else f"{low} and {high}"


def _told(number: float) -> str:
    """A whole number to its last digit."""
    return str(number) if isinstance(number, int) else f"{number:g}"


COUNT = Range(low=1)
NOT_NEGATIVE = Range(low=0)
POSITIVE = Range(low=0, above=True)
PROBABILITY = Range(low=0, high=1, below=True)
FRACTION = Range(low=0, high=1)
SHARE = Range(low=0, high=1, above=True)

LIMITS: dict[str, Range] = {
    "seed": Range(low=0, high=2**32 - 1),
    **dict.fromkeys(
        (
            "accumulate", "base_head_width", "base_width", "batch_size", "batch_sizes", "context_length", "d_model",
            "devices", "every", "length",
            "lengths", "log_every", "max_answer_length", "max_distance", "max_length", "max_sentences",
            "max_target_length", "num_buckets", "num_classes", "num_heads", "num_iterations", "num_kv_heads",
            "num_layers", "num_nodes", "num_pairs", "num_test", "num_train", "num_validation", "patch_size",
            "patience", "rounds", "samples", "tensor_parallel", "threads", "validate_every", "validation_batches",
            "num_candidates", "stride", "vocab_size", "max_epochs",
        ),
        COUNT,
    ),
    **dict.fromkeys(
        (
            "warmup", "decay", "weight_decay", "lr", "adamw_lr", "num_samples", "num_workers", "min_delta",
            "num_segments", "max_steps", "shots",
        ),
        NOT_NEGATIVE,
    ),
    **dict.fromkeys(("eps", "base", "multiple", "gradient_clip", "power", "seconds"), POSITIVE),
    **dict.fromkeys(("dropout", "drop_path", "label_smoothing", "momentum", "betas"), PROBABILITY),
    **dict.fromkeys(("minimum",), FRACTION),
    **dict.fromkeys(("mask_rate", "fraction", "layer_decay", "memory_share", "tolerance"), SHARE),
    **dict.fromkeys(("original_length", "summary_width"), COUNT),
    **dict.fromkeys(("fast_turns", "slow_turns", "magnitude", "initial_alpha"), POSITIVE),
    **dict.fromkeys(("halvings", "qk_norm_eps"), POSITIVE),
    **dict.fromkeys(("factor", "head_width"), COUNT),
    **dict.fromkeys(("max_args", "max_depth", "min_length", "num_copied", "num_symbols", "num_types"), COUNT),
    **dict.fromkeys(("modulus", "test_length", "turn_steps"), COUNT),
    **dict.fromkeys(("array_parallelism", "at_once", "cpus", "cpus_per_task", "timeout_min"), COUNT),
    **dict.fromkeys(("gpus", "gpus_per_node", "max_num_timeout", "retries", "signal_delay_s"), NOT_NEGATIVE),
    "mem_gb": POSITIVE,
    **dict.fromkeys(("max_features", "ngrams", "train_rows"), COUNT),
    "strengths": POSITIVE,
    "train_fraction": Range(low=0, high=1, above=True, below=True),
    "weight_averaging": Range(low=0, high=1, above=True, below=True),
}  # fmt: skip
