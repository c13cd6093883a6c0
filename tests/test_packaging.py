"""The installed package is complete: the wheel has every file, runs where there is no checkout, and names what it
imports."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

from headtohead.components.fast_kernels import PROJECTS

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGES = (
    "report/files/report.css",
    "report/files/report.html",
    "dashboard/pages/app.js",
    "theme.css",
    "page_kit.js",
)
OF_ANOTHER = {"omegaconf": "hydra-core", "transformers": "lm-eval"}
"""Packages that we import and another of ours brings: its own dependency, of the version that it wants."""


def test_the_wheel_holds_every_page_style_and_configuration_of_the_checkout() -> None:
    packed = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    source, conf = ROOT / "src", ROOT / "conf"
    expected = {str(file.relative_to(source)) for file in source.rglob("*") if _is_ours(file)}
    expected |= {f"headtohead/conf/{file.relative_to(conf)}" for file in conf.rglob("*") if _is_ours(file)}
    assert sorted(expected - packed) == []
    assert {"headtohead/py.typed", *(f"headtohead/comparison/{page}" for page in PAGES)} <= packed


def _is_ours(file: Path) -> bool:
    return file.is_file() and "__pycache__" not in file.parts and not file.name.startswith(".")


@pytest.fixture(scope="module")
def wheel_command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an environment of its own, beside the packages of this one; return its h2h."""
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    packages = next((environment / "lib").glob("python*/site-packages"))
    ZipFile(wheel).extractall(packages)
    (packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    name, target = PROJECT["scripts"].popitem()
    module, _, function = target.partition(":")
    command = environment / "bin" / str(name)
    command.write_text(
        f"#!{environment}/bin/python\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n",
        encoding="utf-8",
    )
    command.chmod(0o755)
    return command


def _run(command: Path, *words: str, folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [str(command), *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert not ended.returncode, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.process
def test_the_wheel_runs_a_study_to_its_report_in_an_empty_folder(wheel_command: Path, tmp_path: Path) -> None:
    assert _run(wheel_command, "--version", folder=tmp_path).split() == ["headtohead", PROJECT["version"]]
    where = "import headtohead, sys; sys.stdout.write(headtohead.__file__)"
    assert str(wheel_command.parents[1]) in _run(wheel_command.with_name("python"), "-c", where, folder=tmp_path)
    quick = ["seeds=2", "trainer.max_steps=2", "trainer.validate_every=2", "data.num_train=64", "data.num_test=8"]
    small = ["data.num_validation=8", "lengths=[1,4]", "trainer.accelerator=cpu", "trainer.threads=1"]
    _run(wheel_command, "study", "demo", *quick, *small, folder=tmp_path)
    assert (tmp_path / "outputs/studies/demo/report.html").is_file()
    assert not list((tmp_path / "outputs/studies/demo").glob("*.err"))


def _imported() -> set[str]:
    """Return the packages that the source imports, at the top of a module or inside of a function, but for types."""
    names: set[str] = set()
    for file in (ROOT / "src/headtohead").rglob("*.py"):
        for node in ast.walk(_without_types(ast.parse(file.read_text(encoding="utf-8")))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(str(node.module).partition(".")[0])
    return names - sys.stdlib_module_names - {"headtohead"}


def _without_types(tree: ast.Module) -> ast.Module:
    tree.body = [
        node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    ]
    return tree


def _named(requirements: Iterable[str]) -> set[str]:
    return {_canonical(match[0]) for line in requirements if (match := re.match(r"[\w.-]+", line))}


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-")


@pytest.mark.slow
def test_every_imported_package_is_a_dependency_or_an_extra_and_every_dependency_is_imported() -> None:
    core = _named(PROJECT["dependencies"])
    extras = {name: _named(lines) for name, lines in PROJECT["optional-dependencies"].items() if name != "dev"}
    providers = packages_distributions()
    imported = {module: {_canonical(one) for one in providers.get(module, [module])} for module in _imported()}
    kernels = {_canonical(module) for module in PROJECTS} | {_canonical(package) for package in PROJECTS.values()}
    named = core | kernels | set().union(*extras.values()) | set(OF_ANOTHER)
    assert sorted(module for module, packages in imported.items() if not packages & named) == []
    assert sorted(core - set().union(*imported.values())) == []


def test_pyproject_the_citation_and_the_changelog_name_one_version() -> None:
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    latest = re.search(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None and latest is not None
    assert cited[1] == latest[1] == PROJECT["version"]
