"""A field of the head is mentioned exactly where the model that is built comes out the same without it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest
import torch

from headtohead.architectures.architecture import Head
from headtohead.architectures.head_names import HeadName
from headtohead.architectures.heads import make_head
from headtohead.architectures.replaced_tokens import ReplacedTokenDetector
from headtohead.components.norms import LayerNorm
from headtohead.config.compose.choices import choices
from headtohead.config.compose.composition import compose, compose_checked
from headtohead.config.mentions import OPTIONS, mention, unread_head_fields
from headtohead.config.schema.source_code import class_value

FAMILIES = ("decoder_only", "encoder_only", "encoder_decoder")
"""One of each class whose head is a group of fields."""
OTHERS: Mapping[str, tuple[Any, Any]] = {
    "tie_weights": (True, False),
    "head_bias": (False, True),
    "logit_cap": (None, 0.5),
    "logit_scale": (None, 0.5),
    "pooling": ("cls", "mean"),
    "pooler": ("none", "tanh"),
    "head_activation": ("gelu", "tanh"),
    "head_dense_bias": (True, False),
}
"""Two values of each field."""
WIDTH, VOCABULARY = 8, 11
_NAMES = {"logit_cap": "logit_cap", "logit_scale": "logit_scale"}
"""Those that `make_head` calls by the field's own name."""
_PAIR = ("masked_language_model_and_pair", "pooling")
"""Read for the logits of pairs, which are apart from those of the tokens."""


def heads() -> Iterator[tuple[str, str, HeadName]]:
    """Yield a family and a task for each head that it can have."""
    known = set()
    for family in FAMILIES:
        for task in choices("task"):
            head = class_value(task.target, "head")
            if family in class_value(task.target, "families") and (family, head) not in known:
                known.add((family, head))
                yield family, task.name, head


def made(head: HeadName, fields: Mapping[str, Any]) -> tuple[list[tuple[str, bool]], torch.Tensor]:
    """Return the weights by name, with whether each is the embedding's, and what the head makes of features."""
    torch.manual_seed(0)
    embedding = torch.nn.Parameter(torch.randn(VOCABULARY, WIDTH))
    options = {_NAMES.get(name, OPTIONS[name]): value for name, value in fields.items()}
    if head == "replaced_token_detector":  # an encoder's own, beside a generator of which it reads nothing
        generator = cast(Any, torch.nn.Identity())
        own: Head = ReplacedTokenDetector(WIDTH, generator, mask_rate=0.2, activation=fields["head_activation"])
    else:
        own = make_head(
            head, WIDTH, vocab_size=VOCABULARY, num_classes=3, norm=LayerNorm, dropout=0.0, num_future_tokens=2,
            **{**options, "tied_to": embedding if fields["tie_weights"] else None},
        )  # fmt: skip
    weights = dict(own.named_parameters())
    for index, name in enumerate(sorted(weights)):
        torch.manual_seed(index)
        weights[name].data.normal_()
    torch.manual_seed(99)
    return sorted((name, weight is embedding) for name, weight in weights.items()), own(torch.randn(2, 5, WIDTH))


FIELDS = {family: OPTIONS.keys() & compose("train", [f"model={family}"])["model"].keys() for family in FAMILIES}
CASES = [(family, task, head, field) for family, task, head in heads() for field in OPTIONS if field in FIELDS[family]]


@pytest.mark.parametrize(("family", "task", "head", "field"), CASES)
def test_it_is_mentioned_where_it_changes_nothing(family: str, task: str, head: HeadName, field: str) -> None:
    config = compose("train", [f"task={task}", f"model={family}"])
    usual = {name: values[0] for name, values in OTHERS.items()}
    (weights, features), (others, other_features) = made(head, usual), made(head, {**usual, field: OTHERS[field][1]})
    is_same = weights == others and torch.equal(features, other_features) and (head, field) != _PAIR

    typed = next(value for value in OTHERS[field] if value != config["model"][field])
    sentences = list(unread_head_fields({**config, "model": {**config["model"], field: typed}}))
    assert [f"model.{field}=" in sentence for sentence in sentences] == [True] * is_same


def test_nothing_is_mentioned_of_what_a_choice_says_itself() -> None:
    for family, task, _ in heads():
        assert not list(unread_head_fields(compose("train", [f"task={task}", f"model={family}"])))


def test_the_log_mentions_it_once(caplog: pytest.LogCaptureFixture) -> None:
    typed = ["task=classification", "data=sentence_grammar", "model=encoder_only", "model.logit_cap=7.5"]
    config = compose_checked("train", typed)
    with caplog.at_level(logging.WARNING, logger="headtohead"):
        mention(config)
        mention(config)
    sentence = "model.logit_cap=7.5 has no effect: the head of task=classification, classifier, does not read it"
    assert [record.getMessage() for record in caplog.records] == [sentence]
