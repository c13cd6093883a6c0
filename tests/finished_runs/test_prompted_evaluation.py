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
from from_fields import from_fields
from headtohead.api import load_run
from headtohead.cli import main
from headtohead.config.build import build_task
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_weights import build_data
from headtohead.config.origins.revised_run import revised
from headtohead.data.generated.sentence_grammar import SentenceGrammar
from headtohead.data.splits.sample_splits import fewer_rows
from headtohead.finished_runs.evaluation.evaluate import evaluate
from headtohead.finished_runs.evaluation.evaluation_request import EvaluationRequest, with_shots
from headtohead.finished_runs.finished_run import open_run
from headtohead.tasks.prompt_templates import drawn_examples, texts_of
from headtohead.training.loop.seeds import seeds_of

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


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_shots_ask_a_trained_language_model_and_say_how_sure_the_answer_is(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["terrible", "wonderful"]
    options = [*DATA, "task.template='{text} It was {label}'", f"task.label_words=[{','.join(words)}]"]
    assert main(["evaluate", str(run), *options, "--shots", "0,2", "--json"]) == 0
    [result] = json.loads(capsys.readouterr().out)
    loaded = load_run(run)
    data = from_fields(SentenceGrammar, num_train=40, num_validation=5, num_test=20, tokenizer="byte")
    spec, batch = data.spec(), data.split("test").batch(np.arange(20))
    for point, shots in zip(result["points"], (0, 2), strict=True):
        examples = "".join(
            f"{one.texts[0]} It was {words[one.label]}\n\n" for one in drawn_examples(spec, shots, 0).shown
        )
        scores = np.zeros((20, 2))
        for row, (text,) in enumerate(texts_of(batch, spec)):
            for position, word in enumerate(words):
                before, after = f"{examples}{text} It was".encode(), f" {word}".encode()
                tokens = [1, *(byte + 5 for byte in before + after)]
                with torch.no_grad():
                    shares = loaded.model(tokens=torch.tensor([tokens[:-1]]))[0].double().log_softmax(-1)
                log_shares = shares.gather(1, torch.tensor(tokens[1:])[:, None])[-len(after) :]
                scores[row, position] = float(log_shares.sum())
        truth, predicted = batch.targets.numpy(), scores.argmax(1)
        right = int((truth == predicted).sum())
        assert point["shots"] == shots and point["metrics"]["accuracy"] == pytest.approx(right / 20)
        exact = [beta.ppf(0.025, right, 21 - right), beta.ppf(0.975, right + 1, 20 - right)]
        assert point["intervals"]["accuracy"] == pytest.approx(exact)
        precision, recall, f1, rows = precision_recall_fscore_support(truth, predicted, labels=[0, 1], zero_division=0)
        for position, own in enumerate(point["per_class"]):
            figures = [own["precision"], own["recall"], own["f1"], own["rows"]]
            assert figures == pytest.approx([precision[position], recall[position], f1[position], rows[position]])
    assert list((run / "evaluations").glob("test-shots_0_2*.json"))


SHOWN = ["task=multiple_choice", "task.shots=4", "model=decoder_only", "model/position=rotary", "data.tokenizer=byte"]


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_examples_are_among_the_rows_that_a_run_learns_from(tmp_path: Path) -> None:
    overrides = [*DATA, *SHOWN, *QUIET, "seed=3", "trainer.max_steps=0", f"output_dir={tmp_path}"]
    config = h2h.compose("train", [*overrides, "trainer.train_rows=6"])
    seed = seeds_of(3).data_order
    data = build_data(config)
    learned = fewer_rows(data.split("train"), 6, seed).rows.tolist()
    for other in (None, 3):
        task = build_task(with_shots(config, other), data.spec())
        assert {one.row for one in drawn_examples(task.spec, other or 4, 0).shown} <= set(learned)
    everything = build_task({**config, "trainer": {**config["trainer"], "train_rows": None}}, data.spec())
    assert not {one.row for one in drawn_examples(everything.spec, 4, 0).shown} <= set(learned), "else it shows nothing"

    record = h2h.train(config)
    assert record.path is not None
    with pytest.raises(ConfigurationError, match="than the 6 rows of the train split that are learned from have"):
        evaluate(open_run(record.path), EvaluationRequest(shots=(7,)))


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_rows_of_the_train_split_are_evaluated_without_their_answers_in_the_prompt(tmp_path: Path) -> None:
    overrides = [*DATA, *SHOWN, *QUIET, "data.num_train=8", "data.num_test=1", "trainer.max_steps=0"]
    record = h2h.train(h2h.compose("train", [*overrides, f"output_dir={tmp_path}"]))
    assert record.path is not None
    run = open_run(record.path)
    [point] = evaluate(run, EvaluationRequest(split="train")).points
    data = build_data(run.config)
    task = build_task(run.config, data.spec())
    batch = data.split("train").batch(np.arange(8))
    result = []
    for view in (task.training_view, task.view):
        task.measure("test", run.model, view(batch, seed=0, epoch=0))
        result.append(task.results("test")["loss"])
    assert point.metrics["loss"] == pytest.approx(result[0], rel=1e-6) != result[1]


@pytest.mark.parametrize(
    ("overrides", "rows"),
    [([], 6), (["data.num_test=30"], 6), (["data=sst2"], None), (["data=sst2", "trainer.train_rows=9"], 9)],
)
def test_the_number_of_rows_is_that_of_the_data_of_the_run(overrides: list[str], rows: int | None) -> None:
    config = h2h.compose("train", [*DATA, *SHOWN, "trainer.train_rows=6"])
    assert revised(config, overrides)["trainer"]["train_rows"] == rows


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shots", "0"], "task=multiple_choice reads data of kind labelled_text, and data=grammar_lm is language"),
        (["--shots=-1", *DATA], "must be at least 0"),
        (["--shots", "0", *DATA, "task.template=nothing"], "must hold {text}"),
        (["--shots", "99", *DATA], "rows of the train split that are learned from have"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(
    run: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(run), *arguments]) == 2
    assert message in capsys.readouterr().err
