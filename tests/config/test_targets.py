"""A configuration names classes to make; what would run a program is refused by Hydra, whatever it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.config.build import build_model
from headtohead.config.compose.composition import compose_checked
from headtohead.config.origins.from_weights import build_data
from headtohead.errors import UsageError


@pytest.mark.parametrize("target", ["os.system", "logging.os.system", "subprocess.run", "posix.system"])
def test_a_configuration_starts_no_program(target: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with pytest.raises(Exception, match="block"):
        build_data({"data": {"_target_": target, "_args_": [f"touch {mark}"]}})
    assert not mark.exists()


MIXER = "from headtohead.components.component import Mixer\nclass Mine(Mixer):\n    pass"
FAULTY = {
    "unfinished": ("def f(:", "unfinished.py, line 1, is not Python"),
    "raising": (f"{MIXER}\n1 / 0", "importing raising raises ZeroDivisionError: division by zero"),
    "importing": (f"{MIXER}\nimport no_such_package", "importing importing raises ModuleNotFoundError"),
    "no_such_package_models": (f"{MIXER}\nimport no_such_package", "importing no_such_package_models raises"),
    "latin": ("# caf\xe9", "latin.py is not Python"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTY)
def test_a_file_of_the_users_own_that_cannot_be_imported_is_refused_in_a_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, sentence = FAULTY[name]
    (tmp_path / f"{name}.py").write_text(text, encoding="latin-1")
    folder = tmp_path / "conf" / "model" / "mixer"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(f"# Mine.\n_target_: {name}.Mine\n_partial_: true\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match=sentence):
        build_model(
            compose_checked(
                "train", ["model/mixer=mine", "model/position=none", "data.num_train=64"], tmp_path / "conf"
            )
        )


@pytest.mark.slow
def test_an_argument_that_the_model_does_not_pass_is_refused_with_those_that_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "norm_of_a_width.py").write_text(
        "from headtohead.components.block_parts import Norm\n"
        "class Mine(Norm):\n    def __init__(self, width):\n        super().__init__()"
    )
    folder = tmp_path / "conf" / "model" / "norm"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("# Mine.\n_target_: norm_of_a_width.Mine\n_partial_: true\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        UsageError, match=r"so give model\.norm\.width; what the model passes by itself is called d_model"
    ):
        compose_checked("train", ["model/norm=mine"], tmp_path / "conf")
