"""`h2h coordinates [OVERRIDE ...]`: check whether training changes activations equally at every width."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from headtohead.cli.options import add_configuration, command_parser, configuration_text, parse, picture, within
from headtohead.cli.terminal import note, out, show_table
from headtohead.config.errors import ConfigurationError
from headtohead.ranges import Count, Every

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
    parser = command_parser("coordinates", description, _EXAMPLES)
    add_configuration(parser)
    parser.add_argument("--widths", default="32,64,128,256", metavar="N,N,...", help="default: 32,64,128,256")
    parser.add_argument("--steps", type=within(Every), default=5, metavar="N", help="of training; default: 5")
    parser.add_argument("--seeds", type=within(Count), default=3, metavar="N", help="starts at each width; default: 3")
    parser.add_argument("--heads", choices=["wider", "more"], default="wider", help="what attention's heads become")
    parser.add_argument("--plot", type=picture, metavar="FILE", help="write a picture (.png, .svg, .pdf)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parse(parser, arguments)
    widths = _widths(options.widths)
    if options.cfg:
        from headtohead.diagnostics.coordinate_plan import CoordinatePlan

        plan = CoordinatePlan(options.overrides, widths, heads=options.heads, config_dir=options.config_dir)
        out(configuration_text(options, plan.configs[min(widths)]))
        return 0
    from headtohead import api

    results = api.coordinates(
        options.overrides,
        widths=widths,
        steps=options.steps,
        seeds=options.seeds,
        heads=options.heads,
        config_dir=options.config_dir,
    )
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
