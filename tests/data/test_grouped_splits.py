"""Groups of samples that share something, against a search through all of them."""

from __future__ import annotations

import random

from headtohead.data.splits.sample_splits import Keys, group_ids_of


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
