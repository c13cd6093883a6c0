"""A worker imports before it forks what the runs of its plan name, so that no run imports it again."""

from __future__ import annotations

import sys

import pytest

from headtohead import components, lazy_packages
from headtohead.config import instantiate
from headtohead.execution.run_spec import RunSpec
from headtohead.execution.worker import import_all

NAMED = "headtohead.components.initialisations"


def run_with(*targets: str) -> RunSpec:
    config = {"model": {"_target_": targets[0], "layers": [{"_target_": target} for target in targets]}}
    return RunSpec("arm", 0, (), config, "some")


def test_what_configurations_name_in_this_package_is_there_before_a_run_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, NAMED, raising=False)
    monkeypatch.delattr(components, NAMED.rpartition(".")[2], raising=False)
    instantiate._located.cache_clear()
    import_all([run_with("headtohead.nothing.Here"), run_with("headtohead.nothing.Here", f"{NAMED}.gpt2")])
    assert NAMED in sys.modules


def test_what_others_name_is_left_to_the_run_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    located: list[str] = []
    monkeypatch.setattr(instantiate, "_located", located.append)
    import_all([run_with("their.package.Model", f"{NAMED}.gpt2")])
    assert located == [f"{NAMED}.gpt2"]


@pytest.mark.parametrize(("compiles", "expected"), [(True, ["torch._dynamo"]), (False, [])])
def test_the_compiler_is_there_before_a_run_that_compiles(
    monkeypatch: pytest.MonkeyPatch, compiles: bool, expected: list[str]
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(lazy_packages, "run", lambda module: ran.append(module.__name__))
    import_all([RunSpec("arm", 0, (), {"trainer": {"compile": compiles}}, "some")])
    assert ran == expected
