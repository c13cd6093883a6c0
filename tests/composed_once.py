"""A module that composes one run when it is imported: whoever is forked later has Hydra's modules, and the files of the
default choices as they were read."""

from __future__ import annotations

import headtohead as h2h

h2h.compose("train")
