"""The letters in which a byte-level tokenizer writes bytes (GPT-2)."""

from __future__ import annotations

NUM_BYTES = 256


def letter_bytes() -> dict[str, int]:
    """Which byte each letter of a byte-level BPE stands for: printable ones themselves, others shifted past 255."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [value for value in range(NUM_BYTES) if value not in set(printable)]
    letters = {chr(value): value for value in printable}
    return letters | {chr(NUM_BYTES + place): value for place, value in enumerate(others)}
