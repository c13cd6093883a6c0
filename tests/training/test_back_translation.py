"""Training rows that runs of one's own translated: by the same words that `generate` writes, and once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

import headtohead as h2h
from headtohead.building.build import build_augmentation, build_data
from headtohead.building.errors import ConfigurationError
from headtohead.data.augmentation import back_translation
from headtohead.data.contracts import DataError

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
    """To German and back."""
    steps = ["trainer.max_steps=60", "optimizer.lr=0.003", "trainer.validate_every=60"]
    return {
        to: h2h.train(h2h.compose("train", [*pairs(folder, source, to), *steps])).path
        for source, to in (("en", "de"), ("de", "en"))
    }  # type: ignore[misc]


def translated(run: Path, texts: list[str]) -> list[str]:
    """As `h2h generate` does, texts no longer than those that the run learned from."""
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
    monkeypatch.setattr(back_translation.BackTranslation, "_made", None)
    again = build_augmentation(config, build_data(config)).in_loader(before, seed=0, epoch=0)
    assert (again.tokens == first.tokens).all()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([], r"augmentation=back_translation needs a run of yours: give augmentation\.steps\.back_translation\.run"),
        (
            ["run=/nowhere"],
            r"back_translation\.run=/nowhere holds no record.json: give the folder of a finished",
        ),
    ],
)
def test_what_is_no_run_is_refused(folder: Path, overrides: list[str], message: str) -> None:
    given = [f"augmentation.steps.back_translation.{override}" for override in overrides]
    with pytest.raises(ConfigurationError, match=message):
        config = h2h.compose("train", [*pairs(folder, "en", "de"), "augmentation=back_translation", *given])
        build_augmentation(config, build_data(config))


def fake_run(folder: Path, config: dict[str, object]) -> Path:
    """All that is read of a run before its model is made."""
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "record.json").write_text("{}", encoding="utf-8")
    (folder / "checkpoints" / "best.ckpt").write_bytes(b"weights")
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return folder


def test_a_run_that_goes_the_same_way_is_refused(folder: Path, tmp_path: Path) -> None:
    step = "augmentation.steps.back_translation.run"
    for source, target in (("en", "de"), ("de", "en")):
        run = fake_run(tmp_path / source, {"data": {"source_column": source, "target_column": target}})
        config = h2h.compose("train", [*pairs(folder, "en", "de"), "augmentation=back_translation", f"{step}={run}"])
        if source == "de":
            build_augmentation(config, build_data(config))
            continue
        with pytest.raises(ConfigurationError, match="translates from en to de, as this run is to: give one that was"):
            build_augmentation(config, build_data(config))


def test_pairs_need_no_way_back_and_labelled_texts_do(folder: Path) -> None:
    data = build_data(h2h.compose("train", pairs(folder, "en", "de")))
    with pytest.raises(DataError, match="back=there has no use with pairs"):
        back_translation.BackTranslation(run="here", back="there").bind(data)
    labelled = ["data=sentence_grammar", "data.num_train=20", "data.num_validation=4", "data.num_test=4"]
    reviews = build_data(h2h.compose("train", [*SMALL, *labelled, "task=classification", "model=encoder_only"]))
    with pytest.raises(DataError, match=r"back is missing: give the folder of a finished run that translates back"):
        back_translation.BackTranslation(run="here").bind(reviews)
