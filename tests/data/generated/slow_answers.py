"""The answers of the procedural tasks worked out again, one at a time and from decoded symbols alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headtohead.data.batches.batch import IGNORED
from headtohead.data.data_source import SplitName
from headtohead.data.generated.procedural_source import ProceduralSource

CLOSES = {"(": ")", "[": "]", "{": "}", "<": ">"}


@dataclass(frozen=True)
class Row:
    """The tokens that a model reads, and its target at each position ("" where there is none)."""

    read: list[str]
    requested: list[str]


def language_rows(source: ProceduralSource, name: SplitName) -> list[Row]:
    split = source.split(name)
    batch = split.batch(np.arange(len(split)))
    assert batch.tokens is not None and batch.targets is not None
    lengths = batch.valid.sum(1).tolist() if batch.valid is not None else [batch.tokens.shape[1]] * len(split)
    rows = []
    for length, tokens, targets in zip(lengths, batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        assert not any(tokens[length:]) and set(targets[length:]) <= {IGNORED}
        options = ["" if target == IGNORED else source.decode([target]) for target in targets[:length]]
        rows.append(Row([source.decode([token]) for token in tokens[:length]], options))
    return rows


def requested_after(source: ProceduralSource, name: SplitName) -> list[tuple[list[str], list[str]]]:
    """Return prompts and answers of rows in which the answer follows the prompt, after checking its positions."""
    result = []
    for row in language_rows(source, name):
        start = row.read.index(source.separator)
        prompt, answer = row.read[:start], row.requested[start:]
        written = [source.separator] * len(answer)
        if source.form == "language":
            written = [source.separator, *answer[:-1]]
        assert row.read[start:] == written and row.requested[:start] == [""] * start and all(answer)
        result.append((prompt, answer))
    return result


def described(source: ProceduralSource, name: SplitName, answer: str) -> list[tuple[list[str], list[str]]]:
    """Return prompts and answers as `describe` shows them."""
    split = source.split(name)
    samples = source.describe(split.batch(np.arange(len(split))))
    prompt = "source" if source.form == "pairs" else "text"
    return [(sample[prompt].split(), sample[answer].split()) for sample in samples]


def is_balanced(word: Sequence[str]) -> bool:
    stack: list[str] = []
    for bracket in word:
        if bracket in CLOSES:
            stack.append(CLOSES[bracket])
        elif not stack or stack.pop() != bracket:
            return False
    return not stack


def expected_closings(word: Sequence[str]) -> list[str]:
    """Return, for each position, the bracket that closes the innermost open one."""
    stack: list[str] = []
    expected = []
    for bracket in word:
        if bracket in CLOSES:
            stack.append(CLOSES[bracket])
        else:
            assert stack.pop() == bracket
        expected.append(stack[-1] if stack else "")
    return expected


@dataclass(frozen=True)
class Value:
    number: int
    end: int
    depth: int


def listops_value(tokens: Sequence[str], start: int = 0, *, most: int = 99) -> Value:
    """Evaluate by recursion, from a digit or an operator on; check the number of arguments."""
    if tokens[start].isdigit():
        return Value(int(tokens[start]), start + 1, 0)
    operator, index, numbers, depth = tokens[start], start + 1, [], 0
    while tokens[index] != "]":
        inner = listops_value(tokens, index, most=most)
        numbers.append(inner.number)
        index, depth = inner.end, max(depth, inner.depth)
    assert 2 <= len(numbers) <= most
    ordered = sorted(numbers)
    results = {
        "[MAX": ordered[-1],
        "[MIN": ordered[0],
        "[SM": sum(numbers) % 10,
        "[MED": math.floor((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2),
    }
    return Value(results[operator], index + 1, depth + 1)


def product(first: str, second: str, *, modulus: int | None) -> str:
    """Multiply two named elements: a sum, or one permutation after the other."""
    if modulus is not None:
        return str((int(first) + int(second)) % modulus)
    sends_first = {index + 1: int(image) for index, image in enumerate(first)}
    sends_second = {index + 1: int(image) for index, image in enumerate(second)}
    return "".join(str(sends_second[sends_first[point]]) for point in sorted(sends_first))
