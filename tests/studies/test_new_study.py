"""A study of your own data: the file is written, runs as it stands, and says what its seeds can show."""

from __future__ import annotations

from pathlib import Path
from pydoc import locate

import pytest
import yaml

from headtohead.api.new_studies import chance_words, new_study
from headtohead.cli import main
from headtohead.config.compose.choices import choice_names, choices
from headtohead.config.compose.composition import compose_checked
from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_weights import build_data
from headtohead.studies.definition.nearest_study import nearest_studies
from headtohead.studies.definition.new_study import TEMPLATES, NewStudyRequest
from headtohead.studies.definition.new_study import new_study as make_study
from headtohead.studies.definition.read_study_file import read_study, study_from
from headtohead.studies.definition.tuning_field import UNTUNED

DATA = {
    "causal_lm": "grammar_lm", "classification": "sentence_grammar", "tagging": "tagging_grammar",
    "seq2seq": "number_words", "image_classification": "digits", "similarity": "similarity_grammar",
    "span_qa": "qa_grammar",
}  # fmt: skip
DATA_WORDS = ["data=text", "task=causal_lm"]
SMALL = ["data.num_train=64", "data.num_validation=16", "data.num_test=16", "model.d_model=16", "trainer=cpu"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("task", TEMPLATES)
def test_every_usual_question_composes(task: str) -> None:
    usual = TEMPLATES[task]
    for overrides in usual.arms.values():
        compose_checked("train", [f"data={DATA[task]}", f"task={task}", *overrides])
    target = next(choice.target for choice in choices("task") if choice.name == task)
    assert usual.metric.partition("/")[2] in {metric.name for metric in locate(target).metrics}  # type: ignore[attr-defined]
    fields = {"question": "?", "hypothesis": "?", "tuning": "none", "seeds": 3, "baseline": next(iter(usual.arms))}
    study_from("mine", {**fields, "arms": {name: list(own) for name, own in usual.arms.items()},
                        "metric": usual.metric, "direction": usual.direction})  # fmt: skip


_GUESSED = {
    "causal_lm": "among all", "seq2seq": "among all", "classification": "frequent class", "tagging": "frequent tag",
    "image_classification": "frequent class",
}  # fmt: skip
"""The guess that is named, by the task; of others none is known beforehand."""


@pytest.mark.parametrize("task", TEMPLATES)
def test_a_guess_is_one_of_what_the_task_predicts(task: str) -> None:
    few = SMALL[:3] if DATA[task] != "digits" else []
    model = next(iter(TEMPLATES[task].arms.values()))
    config = compose_checked("train", [f"data={DATA[task]}", f"task={task}", *few, *model])
    assert _GUESSED.get(task, "is not known before") in chance_words(build_data(config), task)


@pytest.mark.slow
@pytest.mark.parametrize("arms", [None, {"a": ["model=vision_transformer"], "b": ["model=cnn"]}])
def test_a_question_on_images_is_planned_as_it_is_written(arms: dict[str, list[str]] | None) -> None:
    written = new_study("mine", None, ["data=digits", "task=image_classification", "trainer=cpu"], arms=arms)
    assert read_study(str(written.file)).budget is None


@pytest.mark.slow
def test_a_file_is_read_as_its_options_say(tmp_path: Path) -> None:
    """Those of the command decide how the file is looked at, and stand in the study once."""
    rows = [f"café {n};{'pos' if n % 2 else 'neg'}" for n in range(60)]
    Path("josé (1).csv").write_text("\n".join(["text;label", *rows]), encoding="latin-1")
    with pytest.raises(ValueError, match=r"data\.encoding=latin-1"):
        new_study("mine", "josé (1).csv")
    written = new_study("mine", "josé (1).csv", ["data.encoding=latin-1", "trainer=cpu"], seeds=3)
    base = read_study(str(written.file)).base
    assert base.count("data.encoding=latin-1") == 1 and "data.path='josé (1).csv'" in base


@pytest.mark.slow
@pytest.mark.parametrize("arms", [(), ("a=model=bag_of_words", "b=model=text_cnn")])
def test_a_question_on_own_classes_is_written_and_planned(arms: tuple[str, ...]) -> None:
    rows = [f"{'good' if n % 2 else 'bad'} story number {n},{'pos' if n % 2 else 'neg'}" for n in range(200)]
    Path("reviews.csv").write_text("\n".join(["text,label", *rows]))
    own = [word for arm in arms for word in ("--arm", arm)]
    assert main(["study", "new", "mine", "reviews.csv", *own, "trainer=cpu", "trainer.threads=1"]) == 0
    assert read_study("mine.yaml").budget is None


@pytest.mark.slow
def test_a_question_on_own_text_is_written_and_planned(capsys: pytest.CaptureFixture[str]) -> None:
    Path("book.txt").write_text("\n\n".join(f"Chapter {n} tells of {n * n} birds that sing." for n in range(200)))
    provided = ["study", "new", "long", "book.txt", "--from", "positions_extrapolation", "--seeds", "3"]
    small = ["data.context_length=16", "trainer=cpu", "trainer.threads=1"]
    assert main([*provided, *small]) == 0
    shown, text = capsys.readouterr().out, Path("long.yaml").read_text()
    assert "h2h study long.yaml" in shown and "18 of 18 runs to do" in shown
    assert text.startswith("# causal_lm on ") and "standard deviations" in text
    study = read_study("long.yaml")
    assert (
        study.metric == "test_4x/loss" and list(study.arms)[:2] == ["alibi", "rotary"] and study.lengths == (1, 2, 4, 8)
    )
    assert "data.num_train=4000" not in study.base and "data.path=book.txt" in study.base
    assert main(provided) == 2 and "long.yaml exists" in capsys.readouterr().err


@pytest.mark.parametrize("start", [None, *choice_names("study")])
def test_what_the_user_chose_goes_before_what_is_usual_and_what_a_study_ships(start: str | None) -> None:
    """Each override of the file is set once, and to the value that was typed."""
    arms = {"layer": [], "rms": ["model/norm=rms_norm"]}
    plain = make_study("mine", NewStudyRequest(start, arms), task="causal_lm", data=DATA_WORDS, rows=1000).fields[
        "base"
    ]
    assert isinstance(plain, list)
    for word in plain:
        typed = [f"{key_of(word)}=typed"] if key_of(word) != "trainer.max_steps" else ["trainer.max_steps=30"]
        data = [*(own for own in DATA_WORDS if key_of(own) != key_of(word)), *typed]
        made = make_study("mine", NewStudyRequest(start, arms, typed=typed), task="causal_lm", data=data, rows=1000)
        base = made.fields["base"]
        assert isinstance(base, list) and len(set(map(key_of, base))) == len(base) and typed[0] in base
        if key_of(word) == "trainer.max_steps" and start is None:
            assert "trainer.validate_every=7" in base


@pytest.mark.parametrize("task", TEMPLATES)
@pytest.mark.parametrize("test_rows", [1, 4, 40, 5000])
def test_a_margin_is_no_less_than_a_test_row(task: str, test_rows: int) -> None:
    """One of one's own stays, with a sentence that says what to do; losses are no shares of rows."""
    step = {"test/accuracy": 1 / test_rows, "test/f1": 1 / test_rows}.get(TEMPLATES[task].metric, 0.0)
    data = [f"data={DATA[task]}", f"task={task}"]
    made = make_study("mine", NewStudyRequest(), task=task, data=data, rows=1000, test_rows=test_rows)
    margin = made.fields["margin"]
    assert isinstance(margin, float) and step <= margin <= max(TEMPLATES[task].margin, step + 0.01)
    assert bool(made.remarks) == (step > TEMPLATES[task].margin)
    own = NewStudyRequest(own=["margin=0.001"])
    made = make_study("mine", own, task=task, data=data, rows=1000, test_rows=test_rows)
    text = made.text(())
    assert made.fields["margin"] == 0.001 and ("take margin=" in text) == (step > 0.001)
    assert yaml.safe_load(text)["margin"] == 0.001


@pytest.mark.slow
def test_arms_of_ones_own_are_compared_on_named_data() -> None:
    arms = {"layer": [], "rms": ["model/norm=rms_norm"]}
    written = new_study("norms", None, ["data=sentence_grammar", "task=classification", *SMALL], arms=arms, seeds=4)
    content = yaml.safe_load(written.file.read_text())
    assert content["baseline"] == "layer" and content["seeds"] == 4 and content["metric"] == "test/accuracy"


@pytest.mark.parametrize("name", choice_names("study"))
def test_every_shipped_question_takes_arms_of_ones_own(name: str) -> None:
    """The fields that name the arms of the study are left out, whatever data these were about."""
    request = NewStudyRequest(name, {"layer": [], "rms": ["model/norm=rms_norm"]})
    made = make_study("mine", request, task="causal_lm", data=DATA_WORDS, rows=1000)
    assert list(study_from("mine", dict(made.fields)).arms) == ["layer", "rms"]


@pytest.mark.parametrize("name", choice_names("study"))
def test_every_shipped_question_is_asked_of_other_data_or_is_about_its_own(name: str) -> None:
    try:
        made = make_study("mine", NewStudyRequest(name), task="causal_lm", data=DATA_WORDS, rows=1000)
    except ConfigurationError as refused:
        assert "is about its own data" in str(refused)
    else:
        assert study_from("mine", dict(made.fields)).arms.keys() == read_study(name).arms.keys()


def test_the_file_says_no_more_of_learning_rates_than_is_known() -> None:
    """A shipped study, and overrides, bring rates of their own."""
    for start, words in ((None, ["optimizer.lr=0.1"]), ("demo", [])):
        made = make_study("mine", NewStudyRequest(start), task="causal_lm", data=[*DATA_WORDS, *words], rows=1000)
        assert made.fields["tuning"] == UNTUNED and "own" not in UNTUNED


@pytest.mark.parametrize(
    ("own", "seeds", "field"),
    [((), 4, 4), (("seeds=3",), 3, 3), (("seeds=[5,6,7]",), 3, [5, 6, 7]), (("alpha=0.01",), 4, 4)],
)
def test_the_comments_count_the_seeds_that_the_study_has(own: tuple[str, ...], seeds: int, field: object) -> None:
    request = NewStudyRequest(seeds=4, own=own)
    made = make_study("mine", request, task="causal_lm", data=["data=text"], rows=1000)
    assert made.fields["seeds"] == field and made.comments["seeds"].startswith(f"{seeds} seeds")


@pytest.mark.parametrize("fault", ["model/norm=my_norm", "model.norm.epz=1e-3", "trainer.max_steps=0.5"])
def test_a_study_whose_arm_cannot_be_is_refused_and_leaves_no_file(fault: str) -> None:
    words = ["data=sentence_grammar", "task=classification", *SMALL]
    with pytest.raises(ValueError, match=fault.partition("=")[0].rpartition(".")[2]):
        new_study("norms", None, words, arms={"layer": [], "mine": [fault]})
    assert not Path("norms.yaml").exists(), "the same command with the fault corrected must not ask for --force"


@pytest.mark.slow
def test_the_command_that_is_shown_next_has_the_folder_of_own_choices(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "conf" / "model" / "norm").mkdir(parents=True)
    own = tmp_path / "conf" / "model" / "norm" / "my_norm.yaml"
    own.write_text("_target_: headtohead.components.norms.RmsNorm\n_partial_: true\neps: 1e-3\n")
    words = ["data=sentence_grammar", "task=classification", *SMALL, "--config-dir", str(tmp_path / "conf")]
    assert main(["study", "new", "norms", *words, "--arm", "layer=", "--arm", "mine=model/norm=my_norm"]) == 0
    shown = capsys.readouterr().out.splitlines()[-1]
    assert shown == f"h2h study norms.yaml --config-dir {tmp_path / 'conf'}"
    assert main([*shown.split()[1:], "--plan"]) == 0


@pytest.mark.parametrize(
    ("words", "batch"),
    [
        (["data.context_length=8192"], ["data.batch_size=1"]),
        (["data.context_length=1024"], ["data.batch_size=4"]),
        (["data.context_length=64"], []),
        (["data.context_length=8192", "data.batch_size=8"], ["data.batch_size=8"]),
        (["data.context_length=8192", "trainer.batch_tokens=65536"], []),
        ([], []),
    ],
)
def test_batches_of_long_rows_have_as_many_tokens_as_usual(words: list[str], batch: list[str]) -> None:
    made = make_study("long", NewStudyRequest(), task="causal_lm", data=["data=text", *words], rows=1000)
    base = made.fields["base"]
    assert isinstance(base, list)
    assert [word for word in base if word.startswith("data.batch_size")] == batch


def test_what_cannot_be_started_is_refused_with_what_to_give() -> None:
    with pytest.raises(ValueError, match="there are no data"):
        new_study("mine")
    with pytest.raises(ValueError, match="is about its own data"):
        new_study("mine", None, ["data=grammar_lm", *SMALL[:3]], start="scaling_tiny")
    with pytest.raises(ValueError, match="does not exist: give a study's file"):
        read_study("none.yaml")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("rotary alibi length", "positions_extrapolation"),
        ("how many heads", "heads"),
        ("rmsnorm layernorm", "norms"),
        ("few images vision transformer convolutions", "digits_100"),
        ("pre-training labels fine-tune bag of words", "finetuning_sst2"),
        ("warm-up post norm depth", "wiring_and_warmup"),
        ("swiglu gelu", "activations"),
    ],
)
def test_the_nearest_question_is_found(words: str, name: str) -> None:
    assert any(study.name.startswith(name) for study in nearest_studies(words)[:2])


@pytest.mark.slow
def test_every_study_is_found_by_its_own_question() -> None:
    for name in choice_names("study"):
        assert name in [study.name for study in nearest_studies(read_study(name).question)]


def test_the_command_shows_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "study", "--find", "rotary alibi length"]) == 0
    shown, advice = capsys.readouterr().out.split("on your own data: ")
    assert {"demo", "positions_extrapolation"} <= set(shown.split())
    assert advice == f"h2h study new mine book.txt --from {nearest_studies('rotary alibi length')[0].name}\n"
    assert main(["list", "--find", "rotary"]) == 2 and main(["list", "study", "--find", "zzz"]) == 2
