"""`h2h check PACKAGE.CLASS`: the laws that every component obeys, held over one class."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headtohead.cli.options import Parser, command_parser, parse, within
from headtohead.cli.terminal import out, say, show_table
from headtohead.diagnostics.named_class import named_class
from headtohead.ranges import Width

if TYPE_CHECKING:
    from rich.table import Table

    from headtohead.diagnostics.laws import Law
    from headtohead.diagnostics.laws.class_check import LawResult

_EXAMPLES = """\
examples:
  h2h check my_package.MyMixer                     a class of your own, found from this folder or on PYTHONPATH
  h2h check my_package.MyMixer window=4            with options, as its YAML file would give them
  h2h check my_package.MyMixer --twin my_package.SlowMixer
                                                   against a plain implementation of the same function
  h2h check my_package.MyMixer --thorough          in double, single and half precision

Mixers, cross mixers, positions, norms and feed-forwards are recognised by the class of headtohead.components.component
that they derive from. To use a class in runs and studies, write a YAML file for it:

  my_conf/model/mixer/mine.yaml:   _target_: my_package.MyMixer
                                   _partial_: true
  h2h train --config-dir my_conf model/mixer=mine

exit code: 0 every law holds, 1 a law is broken, 2 refused, 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    command = parse(_parser(), arguments)
    for target in filter(None, (command.target, command.twin)):
        named_class(target)
    from headtohead import api

    checked = api.check(
        command.target,
        command.options,
        reference=command.twin,
        thorough=command.thorough,
        d_model=command.d_model,
        num_heads=command.num_heads,
    )
    if command.json:
        laws = [
            {"law": one.case.name, "form": one.case.form, "broken": one.broken, "remedy": one.remedy}
            for one in checked.laws
        ]
        silent = {law.__name__: reason for law, reason in checked.not_applicable.items()}
        shown = {"class": checked.target, "kind": checked.kind, "laws": laws, "not_applicable": silent}
        out(json.dumps(shown, indent=2))
    else:
        show_table(_table(checked.laws, checked.not_applicable))
        say(f"{checked.target}, a choice for model/{checked.kind}: {_summary(checked.laws, checked.broken)}")
    return 1 if checked.broken else 0


def _parser() -> Parser:
    parser = command_parser("check", "Check a class against the laws that every component obeys.", _EXAMPLES)
    parser.add_argument("target", metavar="PACKAGE.CLASS", help="a class that Python can import")
    parser.add_argument("options", nargs="*", default=[], metavar="FIELD=VALUE", help="of its constructor")
    parser.add_argument("--twin", metavar="PACKAGE.CLASS", help="the same function, written plainly")
    parser.add_argument("--thorough", action="store_true", help="every law in every precision")
    parser.add_argument("--d-model", type=within(Width), default=16, metavar="N", help="width; default 16")
    parser.add_argument("--num-heads", type=within(Width), default=4, metavar="N", help="heads; default 4")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(multirun=False)
    return parser


def _table(results: Sequence[LawResult], silent: Mapping[Law, str]) -> Table:
    """Return a row for each law; one that is broken has one for each form in which it is, and below what to do; one
    that has nothing to say of the class says why."""
    from rich.table import Table
    from rich.text import Text

    table = Table(pad_edge=False)
    for name in ("law", "verdict"):
        table.add_column(name, no_wrap=True)
    table.add_column("finding")
    for law in dict.fromkeys(law_result.case.law for law_result in results):
        ours = [law_result for law_result in results if law_result.case.law is law]
        broken = [law_result for law_result in ours if law_result.broken is not None]
        for law_result in broken:
            table.add_row(
                law.__name__, Text("failed", style="bold red"), Text(f"{law_result.case.form}: {law_result.broken}")
            )
        if broken:
            table.add_row("", "", Text(f"-> {broken[0].remedy}"))
        else:
            explanation = " ".join((law.__doc__ or "").split("\n\n")[0].split())
            table.add_row(law.__name__, Text("ok", style="green"), Text(explanation, style="dim"))
    for law, reason in silent.items():
        table.add_row(law.__name__, Text("not applicable", style="dim"), Text(reason, style="dim"))
    return table


def _summary(results: Sequence[LawResult], broken: Sequence[LawResult]) -> str:
    laws = {law_result.case.law for law_result in results}
    failed = {law_result.case.law for law_result in broken}
    if not failed:
        return f"all {len(laws)} laws hold"
    return f"{len(failed)} of {len(laws)} laws are broken"
