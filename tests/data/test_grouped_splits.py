"""Groups of samples that share something, against a search through all of them."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.data_source import DataError
from headtohead.data.sources.csv_files import CsvFiles
from headtohead.data.splits.sample_splits import Keys, group_ids_of, with_all_classes_left


def found_by_search(keys: list[Keys]) -> list[int]:
    """Return the numbers of groups, each searched from its first sample step by step."""
    groups: dict[int, int] = {}
    for first in range(len(keys)):
        if first in groups:
            continue
        reached, number = [first], len(set(groups.values()))
        while reached:
            sample = reached.pop()
            if sample in groups:
                continue
            groups[sample] = number
            reached += [
                other
                for other in range(len(keys))
                if any(one is not None and one == its for one, its in zip(keys[sample], keys[other], strict=True))
            ]
    return [groups[sample] for sample in range(len(keys))]


def test_samples_that_are_joined_by_chains_of_shared_keys_are_one_group(draw_seed: int) -> None:
    rng = random.Random(draw_seed)
    most = rng.randint(2, 30)
    keys: list[Keys] = [[rng.choice([None, rng.randrange(most)]) for _ in range(3)] for _ in range(40)]
    assert group_ids_of(keys).tolist() == found_by_search(keys)


def test_a_sample_joins_two_groups_that_were_apart_before_it() -> None:
    assert group_ids_of([("a", None), (None, "b"), ("c", "d"), ("a", "b")]).tolist() == [0, 0, 1, 0]


def test_the_same_key_at_another_index_is_another_key() -> None:
    assert group_ids_of([("a", None), (None, "a"), ("a", None)]).tolist() == [0, 1, 0]


def held_out(order: np.ndarray, begins: np.ndarray, sizes: list[int]) -> int:
    """Return where the front ends that splits of these sizes take, groups undivided."""
    end = 0
    for size in sizes:
        end = next(int(begin) for begin in begins if begin >= end + size)
    return end


def test_what_is_left_has_every_class_and_groups_stay_whole(draw_seed: int) -> None:
    rng = random.Random(draw_seed)
    size, num_classes = rng.randint(20, 60), rng.randint(1, 12)
    group_of = sorted(rng.randrange(rng.randint(1, size)) for _ in range(size))
    classes = [tuple({rng.randrange(num_classes) for _ in range(rng.choice([1, 1, 3]))}) for _ in range(size)]
    groups = [[row for row in range(size) if group_of[row] == group] for group in sorted(set(group_of))]
    rng.shuffle(groups)
    order, begins = np.concatenate(groups), np.cumsum([0, *map(len, groups)])
    begins, sizes = np.append(begins, 2 * size), [rng.randint(1, 4), rng.randint(1, 4)]
    names = {name for own in classes for name in own}
    covered = {name for row in order[held_out(order, begins, sizes) :] for name in classes[row]} == names
    after, cuts = with_all_classes_left(order, begins, classes, sizes)
    assert sorted(after.tolist()) == list(range(size)) and cuts[-2:].tolist() == [size, 2 * size]
    inner = [after[start:stop].tolist() for start, stop in pairwise(cuts[:-1].tolist())]
    assert sorted(map(sorted, inner)) == sorted(map(sorted, groups)), "a group is divided"
    if covered:
        assert after.tolist() == order.tolist(), "a draw that has every class stays as it was"
    left = {name for row in after[held_out(after, cuts, sizes) :] for name in classes[row]}
    assert left == names or len(groups) < len(names) + sum(sizes), "there were groups enough"


def test_rare_classes_of_a_file_are_learned_whatever_the_seed(tmp_path: Path) -> None:
    file = tmp_path / "rare.csv"
    rows = [f"row {number},{number if number < 12 else 'usual'}" for number in range(100)]
    file.write_text("\n".join(["text,label", *rows, ""]), encoding="utf-8")
    for seed in range(8):
        source = from_fields(CsvFiles, path=str(file), tokenizer="char", seed=seed)
        samples = source.samples()
        assert len({label for _, label in samples["train"]}) == 13
        assert [len(samples[name]) for name in ("validation", "test")] == [5, 5]
    file.write_text("text,label\na,pos\nb,neg\nc,pos\n", encoding="utf-8")
    with pytest.raises(DataError, match="has 3 samples of 2 classes, too few to share out to three splits, of which"):
        from_fields(CsvFiles, path=str(file), tokenizer="char").samples()
