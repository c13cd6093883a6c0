"""Opening a stranger's run runs nothing that the run names, whichever command opens it and however it is named."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

import headtohead as h2h
from doors.poisoned_runs import MODULE, Change, at, naming, plant, poisoned, was_run
from fresh_runs import ROWS, fresh_run
from headtohead.cli import COMMANDS, main
from headtohead.comparison.table_columns import NamedColumns
from headtohead.config import instantiate
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_run import rerun
from headtohead.config.trust import check_recorded, targets
from headtohead.execution.run_spec import RunSpec
from headtohead.execution.single_run import train_run
from headtohead.finished_runs.named_runs import named_runs
from headtohead.records.signatures import settings_folder
from served_runs import requested, served

TEXT = [*ROWS, "data.tokenizer=byte", "data.context_length=16", "tracking=none"]
SLOTS = ("data", "task", "model", "optimizer", "model.mixer")
TRANSLATED = [
    "task=seq2seq",
    "model=encoder_decoder",
    "data=number_words",
    "data.num_train=500",
    "augmentation=back_translation",
]
OPENS = {
    "generate": ["generate {run} --prompt the"],
    "evaluate": ["evaluate {run}", "evaluate {run} {run} data=grammar_lm"],
    "probe": ["probe {run} --text the", "probe --data {run}", "probe --positions resume_from={run}"],
    "export": ["export {run} --to safetensors", "export {run} --to hub"],
    "embed": [
        "embed {run} texts.jsonl",
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
    "plan": ["plan --on h100x8 resume_from={run}"],
    "bench": ["bench resume_from={run}"],
    "doctor": ["doctor resume_from={run}"],
    "coordinates": ["coordinates resume_from={run}"],
    "match": ["match --arm a= --arm b=model.num_layers=1 resume_from={run}"],
    "sweep": ["sweep sweep.yaml --plan"],
}  # fmt: skip
"""Every command that makes what a recorded configuration names, in all its ways."""
USUAL = {*(OPENS[name][0] for name in ("generate", "evaluate", "probe", "export", "embed", "train")), OPENS["train"][3]}
READS_VALUES = {
    "compare": ["compare {run}", "compare {run} {run} --json"],
    "sync": ["sync outputs"],
    "list": ["list runs {run}", "list runs outputs --json"],
    "runs": ["runs verify outputs --repair", "runs tag {run} --add a --yes", "runs archive {run} --yes"],
    "data": ["data {run}"],
}
"""Commands that show what is recorded and make nothing of it; so does the dashboard, which has a test of its own."""
READS_NO_RUN = {"check", "schema"}


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


def options(command: str, run: Path) -> list[str]:
    """The words of a command, and the sweep file of the user's own that it reads."""
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
    assert main(options(command, run)) == 2
    message = capsys.readouterr().err
    assert f"{slot}._target_={MODULE}.call in {run}" in message and f"--trust {MODULE}.call" in message
    assert str(settings_folder()) in message and "Traceback" not in message and not was_run(here)


@pytest.mark.parametrize("command", [command for ways in READS_VALUES.values() for command in ways])
def test_a_command_that_shows_a_strangers_run_runs_nothing(command: str, own_run: Path, here: Path) -> None:
    run = poisoned(own_run, Path("outputs/run").absolute(), at("data", naming()))
    assert main(options(command, run)) in (0, 1, 2) and not was_run(here)
    assert not named_runs([run], NamedColumns()).unread


def test_a_run_of_a_study_that_opens_a_strangers_run_fails_and_runs_nothing(own_run: Path, here: Path) -> None:
    """The workers of a study, of a sweep and of --multirun train their runs by this one function."""
    run = poisoned(own_run, here / "run", at("data", naming()))
    overrides = (f"augmentation.steps.back_translation.run={run}", *TRANSLATED, "tracking=none", *ROWS)
    spec = RunSpec("a", 0, overrides, compose_checked("train", overrides), "a0")
    train_run(spec, here / "study" / "a0", None, None)
    reason = json.loads((here / "study" / "a0" / "record.json").read_text())["reason"]
    assert f"data._target_={MODULE}.call in {run}" in reason and not was_run(here)


def test_the_dashboard_shows_a_strangers_run_and_runs_nothing(own_run: Path, here: Path) -> None:
    poisoned(own_run, here / "outputs" / "run", at("data", naming()))
    with served(here / "outputs") as dashboard:
        for path in ("/api/runs", "/api/run?id=run", "/"):
            answer, _ = requested(dashboard, path)
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
    "our own maker": at("data", naming("headtohead.config.instantiate.make", node=naming())),
    "a module that ours imports": at(
        "data", naming("headtohead.data.sources.local_files.os.system", _args_=["touch called"])
    ),
    "a class that ours imports": at("data", naming("headtohead.data.sources.local_files.Path", _args_=["."])),
    "a function of ours that writes": at(
        "tracking", naming("headtohead.files.atomic_write.replace_text", path="called", text="")
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
    assert main(options(command, run)) == 2
    assert f" in {run}/" in capsys.readouterr().err and not was_run(here)


def drawn(random: Random, names: Iterator[str], depth: int = 0) -> Any:
    """A configuration's value with nodes anywhere in it, each with a name of its own."""
    kind = random.choice(["node", "mapping", "list", "plain"]) if depth < 5 else "plain"
    if kind == "plain":
        return random.choice([1, None, "text", True])
    if kind == "list":
        return [drawn(random, names, depth + 1) for _ in range(3)]
    keys = random.sample(["a", "b", "choices", "_args_", "_partial_", "_recursive_", "_convert_"], 3)
    held = {key: drawn(random, names, depth + 1) for key in keys}
    if not isinstance(held.get("_args_", []), list):
        held["_args_"] = [held["_args_"]]
    return {**held, "_target_": next(names)} if kind == "node" else held


def test_the_door_sees_every_name_that_making_would_call(draw_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    located = Mock(return_value=lambda *_, **__: None)
    monkeypatch.setattr(instantiate, "_located", located)
    random, names = Random(draw_seed), (f"strangers.n{number}" for number in count())
    config = {"data": {"_target_": "strangers.first", "inner": [drawn(random, names) for _ in range(4)]}}
    instantiate.make(config["data"])
    called = {call.args[0] for call in located.call_args_list}
    assert "strangers.first" in called and called <= {name for _, _, name in targets(config)}


@pytest.mark.slow
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


def test_modules_in_the_folder_of_a_run_are_not_found_from_there(
    own_run: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(own_run, here / "run"))
    for position, is_on_path in ((run, False), (here, True)):
        monkeypatch.setattr("sys.path", [one for one in sys.path if one != str(position)])
        monkeypatch.chdir(position)
        assert main(["list", "precision"]) == 0 and (str(position) in sys.path) is is_on_path


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


@pytest.mark.slow
def test_whatever_this_package_ships_is_opened_without_a_word(here: Path) -> None:
    """Every choice of every group, in its own place."""
    from headtohead.config.compose.choices import choices, groups

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
