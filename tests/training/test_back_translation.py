"""Training rows that runs of the user's own translated: by the same words that `generate` writes, and once."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import headtohead as h2h
from headtohead.config import build
from headtohead.config.build import build_augmentation, build_task
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_weights import build_data
from headtohead.config.run_translator import RunTranslator
from headtohead.data.augmentation import back_translation
from headtohead.data.data_source import DataError
from headtohead.finished_runs.probe.data_seen import see
from headtohead.training.loop.data_module import training_rows
from headtohead.training.loop.seeds import seeds_of
from headtohead.training.run_components import TrainerSettings

SMALL = [
    "model/size=tiny", "model.d_model=32", "model.num_heads=2", "model.num_layers=1", "trainer.accelerator=cpu",
    "tracking=none", "probe=none", "trainer.num_samples=0", "trainer.progress_bar=false", "data.tokenizer=char",
]  # fmt: skip
WORDS = dict(zip(["one", "two", "three", "four", "five"], ["eins", "zwei", "drei", "vier", "fünf"], strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, chance = tmp_path_factory.mktemp("translations"), np.random.default_rng(0)
    lines = ["en\tde\tlabel"]
    for _ in range(120):
        words = chance.choice(list(WORDS), size=int(chance.integers(1, 4))).tolist()
        lines.append(f"{' '.join(words)}\t{' '.join(WORDS[word] for word in words)}\t{len(words) % 2}")
    (folder / "pairs.tsv").write_text("\n".join(lines), encoding="utf-8")
    return folder


def pairs(folder: Path, source: str, target: str) -> list[str]:
    columns = [f"data.source_column={source}", f"data.target_column={target}"]
    model = ["task=seq2seq", "model=encoder_decoder", f"output_dir={folder}/outputs"]
    return [*SMALL, *model, "data=csv", f"data.path={folder}/pairs.tsv", *columns, "data.batch_size=16"]


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Path]:
    """Train two runs: to German, and back."""
    steps = ["trainer.max_steps=60", "optimizer.lr=0.003", "trainer.validate_every=60"]
    return {
        to: h2h.train(h2h.compose("train", [*pairs(folder, source, to), *steps])).path
        for source, to in (("en", "de"), ("de", "en"))
    }  # type: ignore[misc]


def translated(run: Path, texts: list[str]) -> list[str]:
    """Translate as `h2h generate` does, texts no longer than those that the run learned from."""
    finished = h2h.load_run(run)
    longest = finished.data.spec().max_target_length
    return [one.text.strip() for one in finished.generate(texts, beams=4, max_new_tokens=longest)]


@pytest.mark.slow
def test_sources_of_pairs_are_what_the_run_writes_for_their_targets(folder: Path, runs: dict[str, Path]) -> None:
    step = f"augmentation.steps.back_translation.run={runs['en']}"
    config = h2h.compose("train", [*pairs(folder, "en", "de"), "augmentation=back_translation", step])
    data = build_data(config)
    augmentation = build_augmentation(config, data)
    rows = np.arange(40)
    before = data.split("train").batch(rows)
    after = augmentation.in_loader(before, seed=0, epoch=0)
    sources, targets = ([data.decode(row.tolist()) for row in side] for side in (before.tokens, before.decoder_tokens))
    written = translated(runs["en"], targets)
    replaced = [data.decode(row.tolist()) for row in after.tokens]
    chosen = [new != old for new, old in zip(replaced, sources, strict=True)]
    assert 5 < sum(chosen) < 35
    limit = data.spec().max_length
    for new, old, again in zip(replaced, sources, written, strict=True):
        assert new in (old, again[:limit])
    assert (after.decoder_tokens == before.decoder_tokens).all() and (after.targets == before.targets).all()


@pytest.mark.slow
def test_labelled_texts_go_there_and_back_once(
    folder: Path, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    reviews = [*SMALL, "task=classification", "model=encoder_only", "data=csv", f"data.path={folder}/pairs.tsv"]
    columns = ["data.text_column=en", "data.label_column=label", "augmentation=back_translation"]
    steps = [f"augmentation.steps.back_translation.{name}={runs[to]}" for name, to in (("run", "de"), ("back", "en"))]
    config = h2h.compose("train", [*reviews, *columns, *steps, "augmentation.steps.back_translation.rate=0.99"])
    data = build_data(config)
    rows = np.arange(12)
    before = data.split("train").batch(rows)
    first = build_augmentation(config, data).in_loader(before, seed=0, epoch=0)
    texts = [data.decode(row.tolist()) for row in before.tokens]
    english = translated(runs["en"], [german or "x" for german in translated(runs["de"], texts)])
    for new, old, again in zip(first.tokens, texts, english, strict=True):
        assert data.decode(new.tolist()) in (old, again[: data.spec().max_length - 2])
    assert (first.targets == before.targets).all()
    monkeypatch.setattr(RunTranslator, "__call__", None)
    repeated = build_augmentation(config, build_data(config)).in_loader(before, seed=0, epoch=0)
    assert torch.equal(repeated.tokens, first.tokens)


class Backwards:
    """Writes each text from its end to its beginning, and counts."""

    def __init__(self, field: str) -> None:
        self.digest, self.requested = field, 0

    def __call__(self, texts: Sequence[str]) -> list[str]:
        self.requested += len(texts)
        return [text[::-1] for text in texts]


@pytest.fixture
def translators(monkeypatch: pytest.MonkeyPatch) -> list[Backwards]:
    """All that were opened, the last one last."""
    opened: list[Backwards] = []

    def open_translators(config: Any, data: Any, folders: Mapping[str, str], beams: int) -> list[Backwards]:
        opened.append(Backwards(str(folders)))
        return opened[-1:]

    monkeypatch.setattr(build, "_translators", open_translators)
    return opened


def learning_from(folder: Path, count: int | None, *more: str) -> dict[str, Any]:
    steps = ["augmentation=back_translation", "augmentation.steps.back_translation.rate=0.99"]
    rows = [f"trainer.train_rows={count}" if count else "trainer.train_rows=null"]
    run = f"augmentation.steps.back_translation.run={folder}"
    return h2h.compose("train", [*pairs(folder, "en", "de"), *steps, run, *rows, *more])


@pytest.mark.slow
def test_only_rows_that_a_run_learns_from_are_translated(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, translators: list[Backwards]
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    for count, options in ((10, 10), (30, 30), (None, 108), (10, 0)):
        config = learning_from(folder, count)
        data = build_data(config)
        augmentation = build_augmentation(config, data)
        augmentation.prepare()
        assert translators[-1].requested == options
        learned = training_rows(data, TrainerSettings(train_rows=count), seeds_of(config["seed"]).data_order)
        before = learned.batch(np.arange(len(learned)))
        for steps in (augmentation, pickle.loads(pickle.dumps(augmentation))):
            after = steps.in_loader(before, seed=0, epoch=0)
            changed = 0
            for old, new, target in zip(before.tokens, after.tokens, before.decoder_tokens, strict=True):
                written = data.decode(target.tolist())[::-1][: data.spec().max_length]
                assert data.decode(new.tolist()) in (written, data.decode(old.tolist()))
                changed += data.decode(new.tolist()) == written
            assert changed > 0.9 * len(learned)


@pytest.mark.slow
def test_another_seed_translates_its_own_rows(folder: Path, tmp_path: Path, translators: list[Backwards]) -> None:
    """Two draws of 10 of 108 rows are not the same."""
    for seed, options in ((0, 10), (1, 10), (0, 0)):
        config = learning_from(folder, 10, f"seed={seed}", "data.seed=5")
        build_augmentation(config, build_data(config)).prepare()
        assert translators[-1].requested == options


def test_a_probe_of_data_shows_translations_of_rows_that_the_run_learns_from(
    folder: Path, translators: list[Backwards]
) -> None:
    config = learning_from(folder, 12, "data.seed=6")
    data = build_data(config)
    task, augmentation = build_task(config, data.spec()), build_augmentation(config, data)
    seen = see(data, task, config["seed"], augmentation=augmentation, train_rows=12)
    assert translators[-1].requested == 12
    assert len(seen.samples) == 8
    for sample in seen.samples:
        assert sample.original is not None
        target = data.decode(data.split("train").batch(np.array([sample.row])).decoder_tokens[0].tolist())
        shown = "".join(token.text for token in sample.sides["tokens"] if not token.padding)
        assert shown.replace("\N{OPEN BOX}", " ") == target[::-1][: data.spec().max_length]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([], r"augmentation=back_translation needs a run: give augmentation\.steps\.back_translation\.run"),
        (
            ["run=/nowhere"],
            r"back_translation\.run=/nowhere holds no record.json: give the folder of a finished",
        ),
    ],
)
def test_what_is_no_run_is_refused(folder: Path, overrides: list[str], message: str) -> None:
    provided = [f"augmentation.steps.back_translation.{override}" for override in overrides]
    with pytest.raises(ConfigurationError, match=message):
        config = h2h.compose("train", [*pairs(folder, "en", "de"), "augmentation=back_translation", *provided])
        build_augmentation(config, build_data(config))


def fake_run(folder: Path, config: dict[str, object]) -> Path:
    """All that is read of a run before its model is made."""
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "record.json").write_text("{}", encoding="utf-8")
    (folder / "checkpoints" / "best.ckpt").write_bytes(b"weights")
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return folder


def test_of_pairs_a_run_that_goes_the_same_way_is_refused(folder: Path, tmp_path: Path) -> None:
    step = "augmentation.steps.back_translation.run"
    for source, target in (("en", "de"), ("de", "en")):
        run = fake_run(tmp_path / source, h2h.compose("train", pairs(folder, source, target)))
        config = h2h.compose("train", [*pairs(folder, "en", "de"), "augmentation=back_translation", f"{step}={run}"])
        if source == "de":
            build_augmentation(config, build_data(config))
            continue
        with pytest.raises(
            ConfigurationError, match="from en to de, and this run should translate from en to de: give"
        ):
            build_augmentation(config, build_data(config))


@pytest.mark.slow
def test_of_labelled_texts_the_second_run_goes_back(folder: Path, tmp_path: Path) -> None:
    """The first may go any way: only the texts tell in which language they are."""
    reviews = [*SMALL, "task=classification", "model=encoder_only", "data=csv", f"data.path={folder}/pairs.tsv"]
    columns = ["data.text_column=en", "data.label_column=label", "augmentation=back_translation"]
    there = fake_run(tmp_path / "there", h2h.compose("train", pairs(folder, "en", "de")))
    back = fake_run(tmp_path / "back", h2h.compose("train", pairs(folder, "de", "en")))
    field = "augmentation.steps.back_translation"
    for second in (back, there):
        config = h2h.compose("train", [*reviews, *columns, f"{field}.run={there}", f"{field}.back={second}"])
        if second == back:
            build_augmentation(config, build_data(config))
            continue
        message = rf"back={there} translates from en to de, and \S+run={there} does so from en to de: give one that was"
        with pytest.raises(ConfigurationError, match=message):
            build_augmentation(config, build_data(config))


def test_pairs_need_no_way_back_and_labelled_texts_do(folder: Path) -> None:
    data = build_data(h2h.compose("train", pairs(folder, "en", "de")))
    with pytest.raises(DataError, match="back=there has no use with pairs"):
        back_translation.BackTranslation(run="here", back="there").bind(data)
    labelled = ["data=sentence_grammar", "data.num_train=20", "data.num_validation=4", "data.num_test=4"]
    reviews = build_data(h2h.compose("train", [*SMALL, *labelled, "task=classification", "model=encoder_only"]))
    with pytest.raises(DataError, match=r"back is missing: give the folder of a finished run that translates back"):
        back_translation.BackTranslation(run="here").bind(reviews)
