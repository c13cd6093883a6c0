"""Functions can what commands can beyond their usual call: resume, repeat, sweep, search, look inside, plan."""

from __future__ import annotations

from pathlib import Path

import pytest

import headtohead as h2h
from headtohead.api.error_translation import Speech
from headtohead.api.training import TrainedRun
from headtohead.cli import main

SMALL = [
    "trainer=cpu", "trainer.max_steps=2", "trainer.validate_every=2", "tracking=none", "probe=none",
    "trainer.num_samples=0", "model.d_model=16", "data.batch_size=8", "data=grammar_lm", "data.num_train=64",
    "data.num_validation=8", "data.num_test=8",
]  # fmt: skip
ARMS = {"layer": [], "rms": ["model/norm=rms_norm"]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    return h2h.train([*SMALL, f"output_dir={tmp_path_factory.mktemp('runs')}"], resumable=True)


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def folder_of(run: TrainedRun) -> Path:
    assert run.path is not None
    return run.path


@pytest.mark.slow
def test_a_call_resumes_itself_and_a_run_is_repeated_with_a_change(run: TrainedRun) -> None:
    again = h2h.train([*SMALL, f"output_dir={folder_of(run).parents[1]}"], resumable=True)
    assert again.path == run.path and again.timing == run.timing
    with pytest.raises(ValueError, match="take out resume_from"):
        h2h.train([*SMALL, f"resume_from={folder_of(run)}"], resumable=True)
    assert h2h.compose(overrides=["seed=3"], from_run=folder_of(run))["seed"] == 3
    assert h2h.inspect(from_run=folder_of(run)).ledger.totals.parameters == run.costs["totals"]["parameters"]
    assert h2h.doctor(from_run=folder_of(run), checks=["data"]).faults == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"take_over": True}, "take_over= is for resuming a run"),
        ({"from_run": "nowhere"}, "from_run='?nowhere"),
        ({"config": h2h.compose(), "config_dir": "mine"}, "config_dir='?mine'? would have no effect on a whole"),
        ({"from_run": "x", "config": h2h.compose()}, "from_run='?x'? would have no effect on a whole"),
    ],
)
def test_what_contradicts_itself_is_refused(options: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        h2h.train(**options)  # type: ignore[arg-type]


@pytest.mark.process
def test_a_run_is_trained_for_every_combination_and_the_same_call_resumes() -> None:
    words = [*SMALL, "model/norm=layer_norm,rms_norm", "trainer.devices=1,0"]
    made = h2h.train_many(words, workers=2, progress=False)
    assert len(made.records) == 2 and not made.failures and len(made.sentences) == 2
    assert set(made.curve("test/loss")["name"]) == set(made.to_frame()["name"])
    again = h2h.train_many(words, progress=False)
    assert {job.id: record and record.timing for job, record in made.records.items()} == {
        job.id: record and record.timing for job, record in again.records.items()
    }


@pytest.mark.slow
def test_texts_are_drawn_and_end_as_requested(run: TrainedRun) -> None:
    path = folder_of(run)
    (text,) = h2h.generate(path, "the", top_k=1, temperature=1.0, max_new_tokens=4, precision="64-true")
    assert text.tokens == h2h.generate(path, "the", max_new_tokens=4)[0].tokens
    (ended,) = h2h.generate(path, "the", max_new_tokens=4, stop_tokens=[text.tokens[0]])
    assert ended.tokens == text.tokens[:1] and ended.ending == "stop"
    assert len(h2h.generate(path, [[5, 6], "the"], max_new_tokens=1)) == 2


@pytest.mark.slow
def test_data_and_positions_are_looked_at_of_a_run_and_before_any(run: TrainedRun, tmp_path: Path) -> None:
    path = folder_of(run)
    assert len(h2h.probe_data(path, rows=[0, 1], out=tmp_path / "data").samples) == 2
    before = h2h.probe_data(config=["task=masked_lm", "model=encoder_only", *SMALL])
    assert [row["name"] for row in before.as_rows()] == ["train", "validation", "test"]
    assert h2h.probe_positions(config=["model/position=alibi"], out=tmp_path / "of").encodings[0].encoding == "Alibi"
    h2h.probe(path, rows=[0], out=tmp_path / "maps")
    assert all((tmp_path / page).is_file() for page in ("data/data.html", "of/positions.html", "maps/attention.html"))
    with pytest.raises(ValueError, match="a run keeps its own configuration"):
        h2h.probe_positions(path, ["model/position=alibi"])


@pytest.mark.slow
def test_texts_are_searched_as_by_the_command(run: TrainedRun, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder_of(run)
    texts = ["the birds sleep", "a dog sees", "old teacher"]
    Path("notes.txt").write_text("\n".join(texts))
    result = h2h.search([path, "bm25"], texts, ["birds", "dog"], top=2)
    assert [hit["text"] for hit in result.hits(1, "bm25")] == [texts[1]] and len(result.rankings) == 2
    assert [row["text"] for row in h2h.search(path, "notes.txt", "birds").as_rows()] == [
        row["text"] for row in h2h.search(path, texts, "birds").as_rows()
    ]
    Path("queries.tsv").write_text("1\tbirds\n2\tdog\n")
    Path("relevant.tsv").write_text("1\t1\n2\t2\n")
    rows = [{"id": str(number), "text": text} for number, text in enumerate(texts, 1)]
    Path("corpus.jsonl").write_text("\n".join(map(__import__("json").dumps, rows)))
    measured = h2h.measure_retrieval(path, "corpus.jsonl", "queries.tsv", relevant="relevant.tsv", k=[1])
    assert measured.as_rows()[0]["recall@1"] == 1.0 and measured.files[0].is_file()
    assert main(["embed", str(path), "bm25", "notes.txt", "--query", "birds", "--json"]) == 0
    assert '"found"' in capsys.readouterr().out


@pytest.mark.slow
def test_lengths_are_drawn_and_one_number_is_no_curve(run: TrainedRun) -> None:
    assert h2h.evaluate(folder_of(run), lengths=[8, 16]).plot().axes[0].lines
    with pytest.raises(ValueError, match="one number is not a curve"):
        h2h.evaluate(folder_of(run), lengths=[8]).plot()


@pytest.mark.slow
def test_a_study_that_adds_seeds_says_its_best_and_its_worst_case() -> None:
    seeds = {"start": 3, "most": 9, "until": "decided"}
    planned = h2h.study(h2h.Study(question="Norm?", base=SMALL, arms=ARMS, seeds=seeds), run=False)
    costs = planned.estimate(workers=2)
    assert "at worst, all 9 seeds for every arm: 18 of 18 runs" in costs.title and "on 2 workers" in costs.title
    assert costs.sentences[0].startswith("at best, all decided after 6 seeds: 12 runs to do")
    assert 0 < costs.fewest_seconds < costs.seconds < costs.costs.seconds
    assert {arm.runs for arm in planned.plan_on("h100x2", price=2.0).arms.values()} == {9}


@pytest.mark.slow
@pytest.mark.process
def test_a_study_is_held_to_its_disk_and_its_share() -> None:
    question = h2h.Study(question="Norm?", base=SMALL, arms=ARMS, seeds=2)
    for run in (True, False):
        with pytest.raises(ValueError, match=r"disk=1e-06 \(GB\) is less than it would take"):
            h2h.study(question, disk=1e-6, run=run)
    with pytest.raises(ValueError, match=r"shard=\(3, 2\) is refused"):
        h2h.study(question, shard=(3, 2))
    before = h2h.study(question, shard=(1, 2), run=False)
    assert "(2 of the 2 runs of share 1 of 2 are not done: h2h study " in before.title
    half = h2h.study(question, shard=(1, 2), progress=False)
    assert [record.seed for record in half.results.records] == [0, 0] and not half.complete
    assert (
        "(the 2 runs of share 1 of 2 are done, others are not: h2h study " in half.title
        and "--shard 1/2)" in half.title
    )
    other = h2h.study(question, shard=(2, 2), run=False)
    assert "(2 of the 2 runs of share 2 of 2 are not done" in other.title and other.plan.num_runs == 4


@pytest.mark.slow
def test_widths_are_compared_and_words_lead_to_a_study() -> None:
    checked = h2h.coordinates([word for word in SMALL if "d_model" not in word], widths=[16, 32], steps=1, seeds=1)
    assert checked.widths == [16, 32] and checked.plot().axes and checked.as_rows()[0]["layer"] == "embedding"
    assert "positions_extrapolation" in h2h.choices("study", find="rotary alibi length")
    with pytest.raises(ValueError, match="looks among studies: write choices"):
        h2h.choices("data", find="text")


def test_numbers_of_a_refusal_are_numbers() -> None:
    assert Speech().of("--disk 1e-06 is less") == "disk=1e-06 is less"


def test_columns_of_runs_are_any_fields(run: TrainedRun) -> None:
    frame = h2h.runs(folder_of(run).parents[1]).to_frame(["seed", "d_model", "test/loss"])
    assert frame.to_dict("records") == [{"seed": 0, "d_model": 16, "test/loss": run.metrics["test"]["loss"]}]
