"""`h2h coordinates [OVERRIDE ...]`: check whether training changes activations equally at every width."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.cli.options import add_configuration, configuration_text, parse, parser, picture, within
from headtohead.cli.terminal import note, out, show_table
from headtohead.config.errors import ConfigurationError
from headtohead.ranges import Count, Every

if TYPE_CHECKING:
    from headtohead.diagnostics.activation_sizes import CoordinatePlan
    from headtohead.diagnostics.coordinate_results import CoordinateResults

_EXAMPLES = """\
examples:
  h2h coordinates                                          standard: what a step changes grows with width
  h2h coordinates parametrisation=mup                      maximal update: it does not
  h2h coordinates parametrisation=mup optimizer=sgd --widths 64,128,256,512 --steps 3
  h2h coordinates parametrisation=mup model.num_heads=4 parametrisation.base_head_width=16 --heads more
  h2h coordinates --json                                   exponents and measurements, for programs

Each width takes --steps steps on one small batch, at the configured learning rate without schedule. For every part
(embedding, blocks, logits) the table shows how much its output has changed since step 0, and the fitted power of the
width. Its size before training stands next to it. Under maximal update logits start smaller in wider models, by the
root of the width; "fading" are changes that still follow this, as long as little has been learned (raise --steps or
optimizer.lr).

exit code: 0 every change is flat or fading, 1 a change grows or shrinks with width, 2 refused, 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    description = "Check how activations, and what training changes in them, grow with width."
    taken = parser("coordinates", description, _EXAMPLES)
    add_configuration(taken)
    taken.add_argument("--widths", default="32,64,128,256", metavar="N,N,...", help="default: 32,64,128,256")
    taken.add_argument("--steps", type=within(Every), default=5, metavar="N", help="of training; default: 5")
    taken.add_argument("--seeds", type=within(Count), default=3, metavar="N", help="starts at each width; default: 3")
    taken.add_argument("--heads", choices=["wider", "more"], default="wider", help="what attention's heads become")
    taken.add_argument("--plot", type=picture, metavar="FILE", help="write a picture (.png, .svg, .pdf)")
    taken.add_argument("--json", action="store_true", help="as JSON")
    options = parse(taken, arguments)
    from headtohead.diagnostics.activation_sizes import CoordinatePlan

    plan = CoordinatePlan(
        options.overrides, _widths(options.widths), options.steps, options.seeds, options.heads, options.config_dir
    )
    if options.cfg:
        out(configuration_text(options, plan.configs()[min(plan.widths)]))
        return 0
    results = _measured(plan)
    if options.json:
        out(json.dumps(results.to_dict(), indent=2))
    else:
        from headtohead.diagnostics.coordinate_results import show_coordinates

        show_table(show_coordinates(results))
    if options.plot:
        from headtohead.diagnostics.coordinate_results import plot_coordinates

        plot_coordinates(results, Path(options.plot))
        note(os.path.relpath(options.plot))
    return 0 if results.is_flat else 1


def _widths(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ConfigurationError(f"--widths {text} are not numbers: give them with commas, 32,64,128,256") from None


def _measured(plan: CoordinatePlan) -> CoordinateResults:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from headtohead.diagnostics.activation_sizes import measure_activations

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        bar = progress.add_task("", total=len(set(plan.widths)) * plan.num_seeds)

        def report_run(width: int, seed: int) -> None:
            progress.update(bar, advance=1, description=f"width {width}, seed {seed}")

        return measure_activations(plan, report_run)
