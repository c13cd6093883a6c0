"""Opening a stranger's run runs nothing that the run names, whichever command opens it and however it is named."""

from __future__ import annotations

import json
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from poisoned_runs import MODULE, Change, at, naming, plant, poisoned, was_run

import headtohead as h2h
from fresh_runs import ROWS, fresh_run
from headtohead.building.configuration import compose_checked
from headtohead.building.errors import ConfigurationError
from headtohead.building.rerunning import rerun
from headtohead.building.trust import check_recorded, is_trusted
from headtohead.cli import COMMANDS, main
from headtohead.cli.working import worker_commands
from headtohead.comparing.foreign.columns import Columns
from headtohead.examining.contenders import contenders
from headtohead.studying.cells import Cell
from headtohead.studying.launcher import LocalProcesses
from headtohead.studying.running import train_cell
from headtohead.tracking.signing import SIGNATURES, settings_folder
from headtohead.tracking.store import RunFolder
from served_runs import asked, served

TEXT = [*ROWS, "data.tokenizer=byte", "data.context_length=16", "tracking=none"]
SLOTS = ("data", "task", "model", "optimizer", "model.mixer")
TRANSLATED = ["task=seq2seq", "model=encoder_decoder", "data=number_words", "augmentation=back_translation"]
OPENS = {
    "generate": ["generate {run} --prompt the"],
    "evaluate": ["evaluate {run}", "evaluate {run} {run} data=grammar_lm"],
    "probe": ["probe {run} --text the", "probe --data {run}", "probe --positions resume_from={run}"],
    "export": ["export {run} --to safetensors", "export {run} --to hub"],
    "embed": [
        "embed {run} texts.jsonl",
        "embed bm25 texts.jsonl --cross-encoder {run} --queries texts.jsonl --relevant q.tsv",
    ],
    "train": [
        "train --from-run {run}",
        "train --from-run {run}/record.json seed=1",
        "train --from-run {run}/config.yaml",
        "train resume_from={run}",
        "train resume_from={run}/record.json",
        "train --resumable --from-run {run}",
        "train -m --from-run {run} seed=1,2",
        "train augmentation.steps.back_translation.run={run} " + " ".join(TRANSLATED),
    ],
    "inspect": ["inspect resume_from={run}"],
    "bench": ["bench resume_from={run}"],
    "doctor": ["doctor resume_from={run}"],
    "coordinates": ["coordinates resume_from={run}"],
    "match": ["match --arm a= --arm b=model.num_layers=1 resume_from={run}"],
    "sweep": ["sweep sweep.yaml --plan"],
}  # fmt: skip
"""Every command that makes what a recorded configuration names, in all its ways."""
USUAL = {*(OPENS[name][0] for name in ("generate", "evaluate", "probe", "export", "embed", "train")), OPENS["train"][3]}
READS_VALUES = {"compare": ["compare {run}", "compare {run} {run} --json"], "sync": ["sync outputs"]}
"""Commands that show what is recorded and make nothing of it; so does the dashboard, which has a test of its own."""
READS_NO_RUN = {"check", "list"}


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fresh_run(tmp_path_factory.mktemp("own"), *TEXT).folder


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that the command is given in, from which Python finds the stranger's module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    plant(tmp_path)
    (tmp_path / "q.tsv").write_text("a\ta\n")
    (tmp_path / "texts.jsonl").write_text(json.dumps({"id": "a", "text": "the old teacher"}) + "\n")
    yield tmp_path


def given(command: str, run: Path) -> list[str]:
    """The words of a command, and the sweep file of one's own that it reads."""
    parameters = {"seed": {"values": [1, 2]}, "resume_from": {"value": str(run)}}
    words = ["h2h", "train", "${args_no_hyphens}"]
    Path("sweep.yaml").write_text(yaml.safe_dump({"command": words, "method": "grid", "parameters": parameters}))
    return command.format(run=run).split()


def tried() -> Iterator[tuple[str, str]]:
    """Every way with one slot, and those by which runs of others are opened most with all of them."""
    for number, way in enumerate(way for ways in OPENS.values() for way in ways):
        yield from ((way, slot) for slot in (SLOTS if way in USUAL else SLOTS[number % len(SLOTS) :][:1]))


@pytest.mark.parametrize(("command", "slot"), list(tried()))
def test_a_command_that_opens_a_strangers_run_refuses_and_runs_nothing(
    command: str, slot: str, own_run: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = poisoned(own_run, Path("outputs/run").absolute(), at(slot, naming(_args_=["touch called"])))
    assert main(given(command, run)) == 2
    said = capsys.readouterr().err
    assert f"{slot}._target_={MODULE}.call in {run}" in said and f"--trust {MODULE}.call" in said
    assert str(settings_folder()) in said and "Traceback" not in said and not was_run(here)


@pytest.mark.parametrize("command", [command for ways in READS_VALUES.values() for command in ways])
def test_a_command_that_shows_a_strangers_run_runs_nothing(command: str, own_run: Path, here: Path) -> None:
    run = poisoned(own_run, Path("outputs/run").absolute(), at("data", naming()))
    assert main(given(command, run)) in (0, 1, 2) and not was_run(here)
    assert not contenders([run], Columns()).unread


def test_a_run_of_a_study_that_opens_a_strangers_run_fails_and_runs_nothing(own_run: Path, here: Path) -> None:
    """The workers of a study, of a sweep and of --multirun train their runs by this one function."""
    run = poisoned(own_run, here / "run", at("data", naming()))
    overrides = (f"augmentation.steps.back_translation.run={run}", *TRANSLATED, "tracking=none", *ROWS)
    cell = Cell("a", 0, overrides, compose_checked("train", overrides), "a0")
    train_cell(cell, here / "study" / "a0", None, None)
    reason = json.loads((here / "study" / "a0" / "record.json").read_text())["reason"]
    assert f"data._target_={MODULE}.call in {run}" in reason and not was_run(here)


def test_the_dashboard_shows_a_strangers_run_and_runs_nothing(own_run: Path, here: Path) -> None:
    poisoned(own_run, here / "outputs" / "run", at("data", naming()))
    with served(here / "outputs") as dashboard:
        for path in ("/api/runs", "/api/run?id=run", "/"):
            answer, _ = asked(dashboard, path)
            assert answer.status in (200, 404)
    assert not was_run(here)


def test_starting_from_a_strangers_weights_makes_nothing_that_its_configuration_names(
    own_run: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = poisoned(own_run, here / "run", at("model", naming()))
    main(["train", f"init_from=run:{run}", *TEXT, "trainer.max_steps=1", "model.d_model=16"])
    assert not was_run(here)


def test_every_command_is_among_those_that_are_tried() -> None:
    assert OPENS.keys() | READS_VALUES.keys() | READS_NO_RUN | {"dashboard", "study"} == COMMANDS.keys()
    assert all(way.split()[0] == name for name, ways in {**OPENS, **READS_VALUES}.items() for way in ways)


TRICKS: dict[str, Change] = {
    "nested": at("model.mixer.inner", naming()),
    "in a list": at("model.mixer.inner", [1, [naming()]]),
    "among positional arguments": at("data._args_", [naming()]),
    "partial": at("model.norm", naming(_partial_=True)),
    "a field that there is not": at("extra", naming()),
    "at the top": at("_target_", f"{MODULE}.call"),
    "by reference": at("data._target_", "${oc.decode:" + MODULE + ".call}"),
    "by reference to a field": at("data._target_", "${notes}"),
    "not a text": at("data._target_", [f"{MODULE}.call"]),
    "a function of Hydra": at("data", naming("hydra.utils.get_method", path=f"{MODULE}.call")),
    "another function of Hydra": at("data", naming("hydra.utils.instantiate", config=naming())),
    "our own maker": at("data", naming("headtohead.building.making.make", node=naming())),
    "a module that ours imports": at("data", naming("headtohead.data.files.os.system", _args_=["touch called"])),
    "a class that ours imports": at("data", naming("headtohead.data.files.Path", _args_=["."])),
    "a function of ours that writes": at(
        "tracking", naming("headtohead.tracking.files.replace_text", path="called", text="")
    ),
    "our class in the place of another": at("data", naming("headtohead.components.norms.LayerNorm", d_model=4)),
    "a choice that is a path": at("choices.model", "../../../../../../tmp/mine"),
    "a group that is two overrides": at("choices.model/mixer@model.mixers.a=gru data", "x"),
    "pickles": at("data", naming("pandas.read_pickle", filepath_or_buffer="evil.pickle")),
    "a process": at("data", naming("psutil.Popen", args=["touch", "called"])),
    "torch's own loading": at("model.module", naming("torch.load", f="evil.pickle", weights_only=False)),
    "a published model's code": at("model.module", naming("transformers.AutoModel.from_pretrained")),
}


@pytest.mark.parametrize("change", TRICKS.values(), ids=TRICKS)
@pytest.mark.parametrize("command", ["generate {run} --prompt a", "train --from-run {run}"])
def test_no_way_of_naming_gets_past_the_door(
    change: Change, command: str, own_run: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = poisoned(own_run, here / "run", change)
    assert main(given(command, run)) == 2
    assert f" in {run}/" in capsys.readouterr().err and not was_run(here)


def test_a_reference_in_a_recorded_configuration_stays_text(
    own_run: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOP_SECRET", "xyzzy")
    texts = ["${oc.env:TOP_SECRET}", "${oc.create:{_target_: " + MODULE + ".call}}", r"\${a} ${"]
    for text in texts:
        run = poisoned(own_run, here / f"run{texts.index(text)}", at("data.tokenizer", text))
        for made in (lambda run=run: h2h.load_run(run).data, lambda run=run: h2h.build_parts(rerun(run))):
            with pytest.raises((ValueError, OSError)) as refused:
                made()
            assert "xyzzy" not in str(refused.value)
        shutil.rmtree(run)
        run = poisoned(own_run, run, at("notes", text))
        again = rerun(run)
        assert again["notes"] == text and h2h.build_parts(again).identity.notes == text
    assert not was_run(here)


MINE = """
from headtohead.components.norms import LayerNorm

class MyNorm(LayerNorm):
    pass
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a norm of one's own, made by this user; it is a folder's only run, beside the module of the norm."""
    place = tmp_path_factory.mktemp("mine")
    (place / "my_norms.py").write_text(MINE)
    choice = place / "conf" / "model" / "norm" / "mine.yaml"
    choice.parent.mkdir(parents=True)
    choice.write_text("# Mine.\n_target_: my_norms.MyNorm\n_partial_: true\n")
    small = ["model.num_layers=1", "model.d_model=16", "model.num_heads=2", "trainer.max_steps=1", "model/norm=mine"]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(place))
        kept = ["trainer.keep_checkpoints=all", f"output_dir={place / 'outputs'}"]
        folder = h2h.train(h2h.compose("train", [*TEXT, *small, *kept], place / "conf")).path
    assert folder is not None
    return folder


@pytest.fixture
def own_class(trained: Path, here: Path) -> Path:
    shutil.copy(trained.parents[2] / "my_norms.py", here)
    return Path(shutil.copytree(trained, here / "outputs" / trained.name))


def opened_all_ways(run: Path, *trust: str) -> list[int]:
    words = [word for name in trust for word in ("--trust", name)]
    commands = [
        ["generate", str(run), "--prompt", "the", "--max-new-tokens", "1"],
        ["train", "--from-run", str(run), "--cfg", "job"],
        ["train", f"resume_from={run}", "--cfg", "job"],
    ]
    return [main([*command, *words]) for command in commands]


def test_ones_own_run_is_opened_without_a_word_also_where_its_folder_moved(own_class: Path, here: Path) -> None:
    assert opened_all_ways(own_class) == [0, 0, 0]
    moved = shutil.move(own_class, here / "elsewhere")
    assert opened_all_ways(Path(moved)) == [0, 0, 0]


def test_an_edited_run_is_a_strangers(own_class: Path) -> None:
    for name, before, after in (
        ("config.yaml", "seed: 0", "seed: 1"),
        ("record.json", '"notes": null', '"notes": "edited"'),
    ):
        text = (own_class / name).read_text()
        assert before in text
        (own_class / name).write_text(text.replace(before, after))
    assert opened_all_ways(own_class) == [2, 2, 2]


def test_a_run_of_another_user_needs_the_readers_word(
    own_class: Path, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "theirs"))
    assert opened_all_ways(own_class) == [2, 2, 2]
    assert "model.norm._target_=my_norms.MyNorm" in capsys.readouterr().err
    for name in ("my_norms", "my_norms.MyNorm"):
        assert opened_all_ways(own_class, name) == [0, 0, 0]
    assert opened_all_ways(own_class, "my_nor", "my_norms.My", "other") == [2, 2, 2]
    assert opened_all_ways(own_class) == [2, 2, 2], "a word is good for one command"
    with pytest.raises(ConfigurationError, match="--trust my_norms"):
        h2h.load_run(own_class)
    assert h2h.load_run(own_class, trust=["my_norms"]).config["model"]["norm"]["_target_"] == "my_norms.MyNorm"
    settings = here / "theirs" / "headtohead" / "settings.yaml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("trusted: [my_norms]\n")
    assert opened_all_ways(own_class) == [0, 0, 0]
    settings.write_text("trusted: my_norms\n")
    assert opened_all_ways(own_class) == [2, 2, 2] and str(settings) in capsys.readouterr().err


def test_continuing_a_strangers_run_vouches_for_what_is_trained_and_not_for_its_record(
    own_class: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "theirs"))
    assert main(["train", f"resume_from={own_class}", "trainer.max_steps=2", "--trust", "my_norms"]) == 0
    assert opened_all_ways(own_class) == [0, 0, 2]


def test_modules_in_the_folder_of_a_run_are_not_found_from_there(
    own_run: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(own_run, here / "run"))
    for place, is_on_path in ((run, False), (here, True)):
        monkeypatch.setattr("sys.path", [one for one in sys.path if one != str(place)])
        monkeypatch.chdir(place)
        assert main(["list", "precision"]) == 0 and (str(place) in sys.path) is is_on_path


def test_workers_are_handed_what_their_command_was_told_to_trust() -> None:
    given = Namespace(workers=2, threads=1, config_dir=None, trust=["my_norms", "torchvision"])
    for command in worker_commands(given, LocalProcesses(), ["train"], Path("logs")):
        assert " --trust my_norms --trust torchvision" in " ".join(command.arguments)


def test_a_trusted_package_is_trusted_for_what_is_its_own(here: Path) -> None:
    package = here / "owned"
    (package / "parts").mkdir(parents=True)
    (package / "__init__.py").write_text("import os\nfrom os import system\nfrom .parts.norms import Norm\n")
    (package / "parts" / "__init__.py").write_text("from owned.parts.norms import *\nfrom shutil import *\n")
    (package / "parts" / "norms.py").write_text("import os.path as p\nclass Norm:\n    def made(self): ...\n")
    for target in ("owned.Norm", "owned.parts.norms.Norm", "owned.parts.norms.Norm.made"):
        assert is_trusted(target, ["owned"]), target
    (package / "stars.py").write_text("from owned.parts.norms import *\n")
    assert is_trusted("owned.stars.Norm", ["owned"]) and not is_trusted("owned.stars.os.system", ["owned"])
    foreign = ("os.system", "owned.os.system", "owned.system", "owned.parts.norms.p.os.system", "owned.parts.os.system")
    for target in (*foreign, "ownedly.Norm", "owned", "owned..Norm", "", None):
        assert target == "owned" or not is_trusted(target, ["owned"]), target
    assert is_trusted("owned.system", ["owned.system"]) and not is_trusted("owned.Norm", ["owned.parts"])


def test_values_from_a_server_or_a_published_file_name_no_classes_and_read_no_environment(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOP_SECRET", "xyzzy")
    monkeypatch.setenv("WANDB_SWEEP_ID", "abc")
    monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", "handed.yaml")
    for key, value in (
        ("data._target_", f"{MODULE}.call"),
        ("data", {"_target_": f"{MODULE}.call"}),
        ("notes", "${oc.env:TOP_SECRET}"),
        ("data.images", "{_target_: " + MODULE + ".call}"),
    ):
        Path("handed.yaml").write_text(yaml.safe_dump({key: {"value": value}}))
        assert main(["train", f"{key}={value}", "--cfg", "job"]) == 2
        shown = capsys.readouterr()
        assert "sweep abc" in shown.err and "xyzzy" not in shown.out + shown.err
    Path("handed.yaml").write_text(yaml.safe_dump({"model.num_layers": {"value": 1}}))
    assert main(["train", "model.num_layers=1", "--cfg", "job"]) == 0
    assert not was_run(here)


def test_a_published_configuration_is_no_way_to_an_environment(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOP_SECRET", "xyzzy")
    facts = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 8, "n_head": 2, "n_layer": 1,
             "vocab_size": 16, "n_positions": 16, "resid_pdrop": "${oc.env:TOP_SECRET}"}  # fmt: skip
    (here / "published").mkdir()
    (here / "published" / "config.json").write_text(json.dumps(facts))
    with pytest.raises(ConfigurationError, match=r"\$\{oc.env:TOP_SECRET\} of the config.json of hf:published"):
        compose_checked("train", ["init_from=hf:published"])


def test_whatever_this_package_ships_is_opened_without_a_word(here: Path) -> None:
    """Every choice of every group, in its own place."""
    from headtohead.building.choices import choices, groups

    nowhere = here / "config.yaml"
    for group in groups():
        root = group.partition("/")[0]
        if root in ("experiment", "budget", "launcher", "study"):
            continue
        for choice in choices(group):
            content = yaml.safe_load(choice.path.read_text()) or {}
            node: Any = {key: value for key, value in content.items() if key != "defaults"}
            for name in reversed(group.split("/")):
                node = {name: node}
            if "@package" not in choice.path.read_text().partition("\n")[0]:
                check_recorded(node, nowhere)


def test_a_key_is_the_users_alone_and_a_home_that_cannot_be_written_loses_comfort_only(
    own_run: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = settings_folder() / "key"
    assert key.stat().st_mode & 0o777 == 0o600 and len(key.read_bytes()) == 32
    run = Path(shutil.copytree(own_run, here / "run"))
    before = (run / SIGNATURES).read_text()
    (here / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "file"))
    RunFolder.open(run).sign(record=True)
    assert (run / SIGNATURES).read_text() == before
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "open"))
    RunFolder.open(run).sign(record=True)
    assert (run / SIGNATURES).read_text() != before
    (here / "open" / "headtohead" / "key").chmod(0o644)
    before = (run / SIGNATURES).read_text()
    RunFolder.open(run).sign(record=True)
    assert (run / SIGNATURES).read_text() == before, "a key that others may read signs nothing"


def test_processes_that_come_at_once_share_one_key(here: Path, monkeypatch: pytest.MonkeyPatch, own_run: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "new"))
    runs = [RunFolder.open(shutil.copytree(own_run, here / f"run{number}")) for number in range(8)]
    for run in runs:
        (run.path / SIGNATURES).unlink()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda run: run.sign(record=True), runs))
    assert len({(run.path / SIGNATURES).read_text() for run in runs}) == 1
    assert [path.name for path in (here / "new" / "headtohead").iterdir()] == ["key"]
