"""A configuration names classes to make; what would run a program is refused by Hydra, whatever it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.config.origins.from_weights import build_data


@pytest.mark.parametrize("target", ["os.system", "logging.os.system", "subprocess.run", "posix.system"])
def test_a_configuration_starts_no_program(target: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with pytest.raises(Exception, match="block"):
        build_data({"data": {"_target_": target, "_args_": [f"touch {mark}"]}})
    assert not mark.exists()
