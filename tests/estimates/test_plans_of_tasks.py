"""Every task has a plan, and what takes no steps is refused in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headtohead.config.compose.choices import Choice, choices
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.schema.source_code import class_value
from headtohead.estimates.plan import plan

SMALL = ["model.d_model=16", "model.num_heads=2", "model.num_layers=1", "data.batch_size=4", "trainer.max_steps=2"]
FEW = ["data.num_train=24", "data.num_validation=4", "data.num_test=4"]
DATA = {
    "language": ["data=grammar_lm", "data.context_length=16", "data.tokenizer=char", "data.packing=stream", *FEW],
    "labelled_text": ["data=sentence_grammar", *FEW],
    "tagged_text": ["data=tagging_grammar", *FEW],
    "questions": ["data=qa_grammar", *FEW],
    "pairs_of_text": ["data=number_words", *FEW],
    "scored_text": ["data=similarity_grammar", *FEW],
    "images": ["data=digits", "data.num_train=24"],
}
"""The data of a plan, by the kind that its task reads."""
OWN_DATA = {
    "contrastive_pairs": ["data=number_words", *FEW],
    "masked_lm_next_sentence": ["data=next_sentence", "data.path=documents.txt", "data.documents=line"],
}


@pytest.fixture(scope="module", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.chdir(tmp_path_factory.mktemp("documents"))
        lines = (" ".join(f"Sentence {n} of text {text}." for n in range(6)) for text in range(30))
        Path("documents.txt").write_text("\n".join(lines), encoding="utf-8")
        yield


def overrides_of(task: Choice) -> list[str]:
    data = OWN_DATA.get(task.name) or DATA[class_value(task.target, "data_kinds")[0]]
    return [f"task={task.name}", f"model={class_value(task.target, 'families')[0]}", *data, *SMALL]


QUICK = ("masked_diffusion", "image_classification")
TASKS = [
    pytest.param(task, id=task.name, marks=[] if task.name in QUICK else [pytest.mark.slow]) for task in choices("task")
]


@pytest.mark.slow
@pytest.mark.sampled(6)
@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_planned(task: Choice) -> None:
    result = plan(compose_checked("train", overrides_of(task)), "h100")
    assert result.best is not None and result.tokens > 0
    assert result.unit == ("images" if "images" in class_value(task.target, "data_kinds") else "tokens")


def test_what_is_fitted_at_once_has_no_steps_to_plan() -> None:
    bag = ["task=classification", "model=bag_of_words", *DATA["labelled_text"]]
    with pytest.raises(ConfigurationError, match=r"model=bag_of_words is fitted .* no steps to be planned: h2h"):
        plan(compose_checked("train", bag), "h100")
