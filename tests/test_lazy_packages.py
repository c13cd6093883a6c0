"""Commands import only what they use: read off the sources here, and off whole processes under `process`."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import headtohead
from headtohead.lazy_packages import LAZY_PACKAGES, install

SOURCES = Path(headtohead.__file__).parent
SLOW_TO_IMPORT = {
    *("pytorch_lightning", "lightning_fabric", "datasets", "pandas", "wandb", "matplotlib", "sklearn", "scipy"),
    *("transformers", "huggingface_hub", "pyarrow", "optuna", "plotly", "submitit", "ray"),
}
OF_THE_COMPILER = {"torch.distributed.tensor", "torch._subclasses.fake_tensor", "torch._dynamo", "torch._inductor"}
"""Modules of torch that import its compiler or sympy: half a second to a second."""
WITHOUT_THEM = (
    "headtohead.cli.train",
    "headtohead.cli.study",
    "headtohead.cli.inspect",
    "headtohead.api",
    "headtohead.config.build",
    "headtohead.diagnostics.inspection",
    "headtohead.estimates.run_cost",
    "headtohead.studies.planning.cost_estimate",
    "headtohead.studies.planning.study_plan",
    "headtohead.execution.worker",
)
"""The modules that compose, build, inspect and plan: Lightning is for what trains, and the others for a few choices."""


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Yield what is imported with a module: not within functions, and not for types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from imports_of(node)


@cache
def file_of(module: str) -> Path | None:
    path = SOURCES.parent.joinpath(*module.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


@cache
def own_and_external(module: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the modules of the package, and the packages of others and the modules of torch, that a module imports."""
    file = file_of(module)
    assert file is not None
    names = set(imports_of(ast.parse(file.read_text(encoding="utf-8"))))
    parents = {module.rpartition(".")[0]} - {""}
    own = {name for name in names if name.startswith("headtohead.") and file_of(name) is not None}
    external = {name.partition(".")[0] for name in names} - {"headtohead"}
    external |= {name for name in names if name.startswith("torch.")}
    return frozenset(own | parents), frozenset(external)


def reached(module: str) -> dict[str, str]:
    """Return every package of others that importing the module imports, each with the first module that does."""
    seen, waiting, external = {module}, [module], dict[str, str]()
    while waiting:
        importer = waiting.pop()
        own, others = own_and_external(importer)
        external |= dict.fromkeys(others - external.keys(), importer)
        waiting += own - seen
        seen |= own
    return external


@pytest.mark.parametrize("module", WITHOUT_THEM)
def test_what_composes_builds_and_plans_imports_nothing_slow(module: str) -> None:
    assert_none(module, SLOW_TO_IMPORT | OF_THE_COMPILER)


@pytest.mark.parametrize("module", ["headtohead.training.run", "headtohead.estimates.step_times"])
def test_what_trains_and_what_times_steps_imports_nothing_of_the_compiler(module: str) -> None:
    assert_none(module, OF_THE_COMPILER)


def assert_none(module: str, packages: set[str]) -> None:
    slow = {package: importer for package, importer in reached(module).items() if package in packages}
    assert not slow, f"{module} imports {slow}: import it in the function that uses it"


def test_what_trains_imports_lightning_so_that_the_law_above_can_fail() -> None:
    assert "pytorch_lightning" in reached("headtohead.training.run")
    assert "torch._subclasses.fake_tensor" in reached("headtohead.estimates.plan")


def program(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def loaded_after(*arguments: str) -> set[str]:
    """Return the modules of a process after a command; those whose own code has not run are not among them."""
    code = (
        "import sys, contextlib, io\n"
        "from headtohead.cli import main\n"
        "from headtohead.lazy_packages import install\n"
        "install()\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):\n"
        f"    assert main({list(arguments)!r}) == 0\n"
        "print(*(name for name, module in sys.modules.items() if type(module).__name__ != '_UnrunModule'))"
    )
    return set(program(code).split())


TINY = ("data.num_train=64", "data.num_validation=32", "data.num_test=32", "model.d_model=16", "model.num_layers=1")
FORBIDDEN = {
    "inspect": {
        *("pytorch_lightning", "torch._dynamo", "torchmetrics", "scipy", "matplotlib", "transformers", "pandas"),
        *("datasets", "wandb"),
    },
    "train": {
        *("torchmetrics", "scipy", "matplotlib", "transformers", "pandas", "datasets", "sklearn", "requests", "sympy"),
        *("torch._dynamo", "torch._inductor", "torch.onnx", "headtohead.pretrained.families"),
    },
}
"""The modules that a command leaves out over prepared data; training does so with W&B's client, too."""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("command", FORBIDDEN)
def test_a_command_imports_only_what_it_uses_and_less_over_prepared_data(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = ("trainer.max_steps=1", "trainer.accelerator=cpu") if command == "train" else ()
    without, tracked = (("tracking=none",), ("tracking.mode=offline",)) if command == "train" else ((), ())
    assert not {"wandb", "datasets", "pandas"} & loaded_after(command, *TINY, *own, *without)  # writes the data
    assert not FORBIDDEN[command] & loaded_after(command, *TINY, *own, *tracked)


HELD_BACK = [
    "from torchmetrics import SignalNoiseRatio; import scipy.signal",
    "import torchmetrics; torchmetrics.MeanMetric(); import sys; assert 'torchmetrics.audio' in sys.modules",
    "from torchmetrics.audio import SignalNoiseRatio; import sys; assert 'scipy.signal' in sys.modules",
    "import torchmetrics; m = torchmetrics.Metric; import torchmetrics.wrappers; assert torchmetrics.Metric is m",
    "from torchmetrics.classification import MulticlassConfusionMatrix as C; import torch; c = C(2); "
    "c.update(torch.tensor([0, 1]), torch.tensor([1, 1])); c.plot()",
    "import torch; from torch._dynamo import OptimizedModule as O; assert not isinstance(torch.ones(1), O); "
    "assert isinstance(torch.compile(torch.nn.Linear(1, 1)), O)",
    "import torch, torch._dynamo as d; f = d.disable(lambda x: x + 1); assert f(1) == 2; "
    "compiled = torch.compile(lambda x: f(x) * 2, backend='eager'); assert compiled(torch.ones(1)).item() == 4",
    "import torch, torch._dynamo as d; m = torch.nn.Linear(1, 1); o = torch.optim.Adam(m.parameters()); step = "
    "lambda: (m(torch.ones(1, 1)).sum().backward(), o.step()); step(); d.graph_break(); import sys; "
    "assert 'torch._dynamo.eval_frame' not in sys.modules; torch.compile(step, backend='eager')(); "
    "assert 'torch._dynamo.eval_frame' in sys.modules and o.state[m.bias]['step'] == 2",
    "import torch, sys; torch.use_deterministic_algorithms(True); import torch._inductor.config as config; "
    "assert config.deterministic and 'torch._inductor.standalone_compile' not in sys.modules; "
    "assert 'default' in torch._inductor.list_mode_options()",
    "import wandb.sdk.launch as launch; assert callable(launch.launch_add)",
    "import torchmetrics, pytest\nwith pytest.raises(AttributeError): torchmetrics.NoSuchMetric",
]
"""Programs that use a package that was held back."""
EACH_IN_A_FORK = """
import os, sys, torch, traceback
for number, code in enumerate({codes!r}):
    if os.fork() == 0:
        try:
            exec(compile(code, f"program {{number}}", "exec"), {{}})
        except BaseException:
            print(code, traceback.format_exc(), sep="\\n", flush=True)
            os._exit(1)
        os._exit(0)
    os.wait()
"""


@pytest.mark.process
@pytest.mark.slow
def test_a_package_that_was_held_back_is_whole_when_it_is_used() -> None:
    """Importing torch takes longer than each of the programs: they run in forks of a process that has done it."""
    failed = program("from headtohead.lazy_packages import install\ninstall()" + EACH_IN_A_FORK.format(codes=HELD_BACK))
    assert not failed, failed


def test_the_finder_is_installed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    install()
    once = list(sys.meta_path)
    install()
    assert sys.meta_path == once


def test_who_imports_the_package_has_others_as_their_makers_wrote_them() -> None:
    assert not any(type(module).__name__ == "_UnrunModule" for module in sys.modules.values())


def test_what_lies_where_is_said_truly() -> None:
    """Names of the packages are those of their modules, in the version that is installed."""
    from importlib import import_module

    for package, known in LAZY_PACKAGES.items():
        for name, module in known.names.items():
            assert hasattr(import_module(f"{package}.{module}"), name)
