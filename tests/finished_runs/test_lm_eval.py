"""lm-evaluation-harness itself, over tasks in local files, against one forward pass for each text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml

import headtohead as h2h
from headtohead.api import load_run
from headtohead.cli import main

pytest.importorskip("lm_eval")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
    pytest.mark.usefixtures("own_cache"),
]
ROWS: list[dict] = [
    {
        "question": "the old teacher",
        "choices": ["sees a dog", "runs", "is tall"],
        "answer": number % 3,
        "number": number,
    }
    for number in range(6)
]
TEXTS = [f"the small child sees {animal} and the teacher is old" for animal in ("a dog", "two cats", "the bird")]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, prepared_data: Path) -> Path:
    folder = tmp_path_factory.mktemp("harness")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(prepared_data))
        overrides = [
            "data=grammar_lm", "data.num_train=40", "data.num_validation=5", "data.num_test=5", "data.tokenizer=byte",
            "model/position=rotary", "trainer=cpu", "trainer.max_steps=3", "trainer.progress_bar=false",
            "trainer.num_samples=0", "probe=none", "tracking=none", f"output_dir={folder}", "data.context_length=32",
        ]  # fmt: skip
        record = h2h.train(h2h.compose("train", overrides))
    assert record.path is not None
    return record.path


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "tasks"
    folder.mkdir()
    for name, rows in (("choices", ROWS), ("texts", [{"text": text} for text in TEXTS])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {"dataset_path": "json", "test_split": "test"}
    files = {
        "my_choices": {
            "output_type": "multiple_choice", "doc_to_text": "{{question}}", "doc_to_choice": "{{choices}}",
            "doc_to_target": "{{answer}}", "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
            "dataset_kwargs": {"data_files": {"test": str(tmp_path / "choices.jsonl")}},
        },
        "my_texts": {
            "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
            "metric_list": [{"metric": "bits_per_byte"}, {"metric": "byte_perplexity"}],
            "dataset_kwargs": {"data_files": {"test": str(tmp_path / "texts.jsonl")}},
        },
        "my_writing": {
            "output_type": "generate_until", "doc_to_text": "{{question}}", "doc_to_target": "{{choices[0]}}",
            "metric_list": [{"metric": "exact_match"}], "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8},
            "dataset_kwargs": {"data_files": {"test": str(tmp_path / "choices.jsonl")}},
        },
    }  # fmt: skip
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({"task": name, **data, **content}))
    return folder


def log_likelihood(run: Path, before: str, after: str) -> float:
    tokens = [1, *(byte + 5 for byte in (before + after).encode())]
    with torch.no_grad():
        shares = load_run(run).model(tokens=torch.tensor([tokens[:-1]]))[0].double().log_softmax(-1)
    message = shares.gather(1, torch.tensor(tokens[1:])[:, None])
    return float(message[-len(after.encode()) :].sum())


def requested(run: Path, tasks: Path, names: str, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, float]]:
    capsys.readouterr()
    assert main(["evaluate", str(run), "--lm-eval", names, "--lm-eval-tasks", str(tasks), "--json"]) == 0
    output = capsys.readouterr().out
    results: dict[str, dict[str, float]] = json.loads(output[output.index("[\n") :])[0]["results"]
    return results


@pytest.mark.process
def test_accuracies_and_bits_are_those_of_one_forward_pass_each(
    run: Path, tasks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = requested(run, tasks, "my_choices,my_texts", capsys)
    scores = [log_likelihood(run, ROWS[0]["question"], f" {choice}") for choice in ROWS[0]["choices"]]
    by_length = [score / len(choice) for score, choice in zip(scores, ROWS[0]["choices"], strict=True)]
    for metric, values in (("acc,none", scores), ("acc_norm,none", by_length)):
        best = values.index(max(values))
        assert result["my_choices"][metric] == pytest.approx(sum(row["answer"] == best for row in ROWS) / len(ROWS))
    assert list((run / "evaluations").glob("lm_eval-my_choices-my_texts.json"))


def test_long_texts_are_read_in_windows_and_every_token_is_counted_once(run: Path) -> None:
    from lm_eval.api.instance import Instance

    from headtohead.finished_runs.evaluation.lm_eval_model import LmEvalModel

    requested_of = LmEvalModel(run, max_length=400)
    requests = [Instance("loglikelihood_rolling", {}, (text,), 0) for text in TEXTS]
    whole = requested_of.loglikelihood_rolling(requests, disable_tqdm=True)
    assert whole == pytest.approx([log_likelihood(run, "", text) for text in TEXTS], rel=1e-5)
    windows = LmEvalModel(run, max_length=16).loglikelihood_rolling(requests[:1], disable_tqdm=True)
    tokens = [1, *(byte + 5 for byte in TEXTS[0].encode())]
    total, model = 0.0, load_run(run).model
    for position in range(1, len(tokens)):
        done = (position - 1) // 16 * 16
        # a full window is read before the last token of each stretch of 16; the last stretch looks back as far
        end = min(done + 16, len(tokens) - 1)
        read = tokens[max(0, end - 16) : position]
        with torch.no_grad():
            total += float(model(tokens=torch.tensor([read]))[0, -1].double().log_softmax(-1)[tokens[position]])
    assert windows == pytest.approx([total], rel=1e-5)


@pytest.mark.process
def test_what_is_written_is_what_the_run_writes(run: Path, tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lm_eval.api.instance import Instance

    from headtohead.finished_runs.evaluation.lm_eval_model import LmEvalModel

    requested_of = LmEvalModel(run)
    [text] = requested_of.generate_until(
        [Instance("generate_until", {}, ("the old", {"until": ["\n"], "max_gen_toks": 8}), 0)], disable_tqdm=True
    )
    assert text == load_run(run).generate("the old", max_new_tokens=8, stop=["\n"])[0].text
    assert "exact_match,none" in requested(run, tasks, "my_writing", capsys)["my_writing"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data=csv"], "brings its own data"),
        (["--shots", "0,1"], "give --shots one number"),
    ],
)
def test_what_the_harness_decides_itself_is_refused(
    run: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(run), "--lm-eval", "my_choices", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("source", ["OWNER/published", "json"])
def test_data_that_cannot_be_read_is_refused_with_the_way_out(
    run: Path, tasks: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    task = yaml.safe_load((tasks / "my_choices.yaml").read_text())
    task |= {"dataset_path": source, "task": "missing"}
    task["dataset_kwargs"] = {"data_files": {"test": str(tasks / "missing.jsonl")}} if source == "json" else {}
    (tasks / "missing.yaml").write_text(yaml.safe_dump(task))
    assert main(["evaluate", str(run), "--lm-eval", "missing", "--lm-eval-tasks", str(tasks)]) == 2
    message = capsys.readouterr().err
    assert "the data of --lm-eval missing cannot be read" in message and "--lm-eval-tasks DIR" in message
