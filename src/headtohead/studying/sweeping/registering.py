"""A sweep file for W&B's server: checked as for a sweep here, and what stands beside it written into its command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.building.configuration import compose_checked
from headtohead.building.errors import ConfigurationError
from headtohead.comparing.trials import written
from headtohead.studying.sweeping.checking import check_metric, check_parameters, refuse_several_devices
from headtohead.studying.sweeping.planning import Sweeper
from headtohead.studying.sweeping.reading import loaded
from headtohead.studying.sweeping.sweep import Sweep

_OFFLINE = ("offline", "none")


def first_run(sweep: Sweep, config_dir: str | Path | None = None) -> Mapping[str, Any]:
    """The configuration of one trial; raises ConfigurationError where some trial could not be."""
    if sweep.method == "bayes":  # what is tried, its search tells
        check_parameters(sweep, config_dir)
        setting = [f"{key}={written(entry.at(0.0))}" for key, entry in sweep.swept.items()]
        config: Mapping[str, Any] = compose_checked("train", sweep.overrides(*setting), config_dir)
        refuse_several_devices(config)
        check_metric(sweep, [config])
    else:
        (config, *_) = (cell.config for cell in Sweeper(sweep, config_dir).plan.cells)
    if (mode := config["choices"]["tracking"]) in _OFFLINE:
        raise ConfigurationError(
            f"tracking={mode} is refused with --wandb, since its server would see no run: leave one of them out"
        )
    return config


def for_server(
    file: str | Path, sweep: Sweep, overrides: Sequence[str], config_dir: str | Path | None = None
) -> dict[str, Any]:
    """What the server is given: the file, and in its command what stands beside it."""
    content = loaded(Path(file))
    where = ["--config-dir", str(config_dir)] if config_dir and str(config_dir) != sweep.config_dir else []
    content["command"] = [*content["command"], *where, *overrides]
    content.setdefault("name", sweep.name)
    return content if sweep.run_cap is None else {**content, "run_cap": sweep.run_cap}
