"""A language model asked for classes after its training, by `h2h evaluate RUN --shots`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import beta
from sklearn.metrics import precision_recall_fscore_support

import headtohead as h2h
from headtohead.api import load_run
from headtohead.cli import main
from headtohead.data.sentence_grammar import SentenceGrammar
from headtohead.tasks.prompting import drawn_examples, texts_of

DATA = ["data=sentence_grammar", "data.num_train=40", "data.num_validation=5", "data.num_test=20"]
QUIET = ["trainer=cpu", "trainer.progress_bar=false", "trainer.num_samples=0", "probe=none", "tracking=none"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, prepared_data: Path) -> Path:
    folder = tmp_path_factory.mktemp("prompted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(prepared_data))
        sizes = ["data=grammar_lm", "data.num_train=40", "data.num_validation=5", "data.num_test=5"]
        choices = ["data.tokenizer=byte", "model/position=rotary", "trainer.max_steps=3"]
        record = h2h.train(h2h.compose("train", [*sizes, *choices, *QUIET, f"output_dir={folder}"]))
    assert record.path is not None
    return record.path


@pytest.mark.usefixtures("own_cache")
def test_shots_ask_a_trained_language_model_and_say_how_sure_the_answer_is(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["terrible", "wonderful"]
    asked = [*DATA, "task.template='{text} It was {label}'", f"task.label_words=[{','.join(words)}]"]
    assert main(["evaluate", str(run), *asked, "--shots", "0,2", "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    loaded = load_run(run)
    data = SentenceGrammar(num_train=40, num_validation=5, num_test=20, tokenizer="byte")
    spec, batch = data.spec(), data.split("test").batch(np.arange(20))
    for point, shots in zip(found["points"], (0, 2), strict=True):
        examples = "".join(f"{text} It was {words[label]}\n\n" for (text,), label in drawn_examples(spec, shots, 0))
        scores = np.zeros((20, 2))
        for row, (text,) in enumerate(texts_of(batch, spec)):
            for place, word in enumerate(words):
                before, after = f"{examples}{text} It was".encode(), f" {word}".encode()
                tokens = [1, *(byte + 5 for byte in before + after)]
                with torch.no_grad():
                    shares = loaded.model(tokens=torch.tensor([tokens[:-1]]))[0].double().log_softmax(-1)
                said = shares.gather(1, torch.tensor(tokens[1:])[:, None])[-len(after) :]
                scores[row, place] = float(said.sum())
        truth, predicted = batch.targets.numpy(), scores.argmax(1)
        right = int((truth == predicted).sum())
        assert point["shots"] == shots and point["metrics"]["accuracy"] == pytest.approx(right / 20)
        exact = [beta.ppf(0.025, right, 21 - right), beta.ppf(0.975, right + 1, 20 - right)]
        assert point["intervals"]["accuracy"] == pytest.approx(exact)
        precision, recall, f1, rows = precision_recall_fscore_support(truth, predicted, labels=[0, 1], zero_division=0)
        for place, told in enumerate(point["per_class"]):
            figures = [told["precision"], told["recall"], told["f1"], told["rows"]]
            assert figures == pytest.approx([precision[place], recall[place], f1[place], rows[place]])
    assert list((run / "evaluations").glob("test-shots_0_2*.json"))


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--shots", "0"], "task=multiple_choice reads data of kind labelled_text, and data=grammar_lm is language"),
        (["--shots=-1", *DATA], "must be 0 or more"),
        (["--shots", "0", *DATA, "task.template=nothing"], "must hold {text}"),
        (["--shots", "99", *DATA], "than the train split has"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(
    run: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(run), *arguments]) == 2
    assert said in capsys.readouterr().err
